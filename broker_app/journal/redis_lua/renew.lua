-- Extend the lease if it still has this epoch, or end it. KEYS: lease. ARGV: grant, lease in µs.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'expires_us', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[2]))
return 1
