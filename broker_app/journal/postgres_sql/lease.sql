SELECT holder, address, epoch, greatest(-1e9, extract(epoch FROM expires_at - clock_timestamp())) AS left_s
FROM lease
WHERE epoch > 0
