-- Take the lease if it is free or has expired, or by force.
UPDATE lease
SET epoch = epoch + 1, holder = %(holder)s, address = %(address)s,
    expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE expires_at <= clock_timestamp() OR %(force)s
RETURNING epoch, tag, created_us
