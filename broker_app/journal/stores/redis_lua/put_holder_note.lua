-- Write a note if the lease still has this grant. KEYS: lease, notes, their times. ARGV: grant, key, content.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[3], ARGV[2], string.format('%.0f', time[1] * 1000000 + time[2]))
return 1
