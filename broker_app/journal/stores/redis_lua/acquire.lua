-- Take the lease if it is free or has expired, or by force. KEYS: lease. ARGV: tag, created_us, format, holder,
-- address, lease in µs, force. Returns epoch, tag and created_us; only the format if it is another one; nothing
-- if the lease is held.
local lease = KEYS[1]
if redis.call('EXISTS', lease) == 0 then
  redis.call('HSET', lease, 'format', ARGV[3], 'tag', ARGV[1], 'created_us', ARGV[2], 'epoch', 0, 'expires_us', 0)
end
local format = redis.call('HGET', lease, 'format')
if format ~= ARGV[3] then
  return {format}
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
if ARGV[7] == '0' and tonumber(redis.call('HGET', lease, 'expires_us')) > now_us then
  return {}
end
local epoch = redis.call('HINCRBY', lease, 'epoch', 1)
redis.call('HSET', lease, 'holder', ARGV[4], 'address', ARGV[5],
  'grant', epoch .. ' ' .. ARGV[4], 'expires_us', string.format('%.0f', now_us + ARGV[6]))
return {epoch, redis.call('HGET', lease, 'tag'), redis.call('HGET', lease, 'created_us')}
