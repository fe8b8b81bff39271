-- Take the lease if it is free or has expired, or by force. FOR UPDATE waits for what the holder is storing (FOR KEY
-- SHARE), and holds up what it begins to store; renewing does neither, and is held up by neither.
WITH locked AS MATERIALIZED (
    SELECT id FROM lease FOR UPDATE
)
UPDATE lease
SET epoch = epoch + 1, holder = %(holder)s, address = %(address)s,
    expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
FROM locked
WHERE lease.id = locked.id AND (expires_at <= clock_timestamp() OR %(force)s)
RETURNING epoch, tag, created_us
