-- The first statement of a transaction that only the holder of the lease may carry out.
SELECT 1 FROM lease WHERE epoch = %(epoch)s AND holder = %(holder)s FOR SHARE
