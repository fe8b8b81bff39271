UPDATE lease
SET expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
WHERE epoch = %(epoch)s AND holder = %(holder)s
RETURNING 1
