-- Store a batch if the lease still has this grant. A repeat changes nothing. Returns 0 for another grant, -1 if the
-- batches before this one are missing, as after a failover to a replica without them. KEYS: lease, segments, stream of the
-- segment, its rows. ARGV: grant, segment, first position, count, frame; 1 if batches before it may be missing.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
local stored_end = redis.call('HGET', KEYS[1], 'end')
if not ARGV[6] and stored_end and tonumber(ARGV[3]) > tonumber(stored_end) then
  return -1
end
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then
  redis.call('DEL', KEYS[3], KEYS[4]) -- what was left of a carry segment that was not finished
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
end
local id = ARGV[3] .. '-0'
if #redis.call('XRANGE', KEYS[3], id, id) == 0 then
  redis.call('XADD', KEYS[3], id, 'count', ARGV[4], 'frame', ARGV[5])
  redis.call('RPUSH', KEYS[4], ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. #ARGV[5])
  redis.call('HSET', KEYS[1], 'end', string.format('%.0f', ARGV[3] + ARGV[4]))
end
return 1
