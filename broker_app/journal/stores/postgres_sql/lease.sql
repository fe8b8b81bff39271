-- The lease; a holder that gave it back has set the time of its end to 1970.
SELECT holder, address, epoch,
    CASE WHEN expires_at = 'epoch' THEN 0 ELSE extract(epoch FROM expires_at - clock_timestamp()) END AS left_s,
    expires_at = 'epoch' AS is_released
FROM lease
WHERE epoch > 0
