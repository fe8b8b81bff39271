-- Extend the lease if it still has this epoch, or give it back. KEYS: lease. ARGV: grant, lease in µs, or 0.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
local expires_us = '0'
if ARGV[2] ~= '0' then
  local time = redis.call('TIME')
  expires_us = string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[2])
end
redis.call('HSET', KEYS[1], 'expires_us', expires_us)
return 1
