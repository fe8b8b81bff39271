-- The first statement of a transaction that only the holder of the lease may carry out. A takeover waits for its end;
-- renewing does not.
SELECT 1 FROM lease WHERE epoch = %(epoch)s AND holder = %(holder)s FOR KEY SHARE
