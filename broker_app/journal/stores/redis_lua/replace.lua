-- Make a carry segment part of the log and delete segments, in one step, if the lease still has this epoch.
-- KEYS: lease, segments, carries, then stream and rows of each deleted segment. ARGV: grant, the carry segment
-- or nothing, then the deleted ones.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
if ARGV[2] ~= '' then
  redis.call('SADD', KEYS[3], ARGV[2])
end
for i = 3, #ARGV do
  redis.call('ZREM', KEYS[2], ARGV[i])
  redis.call('SREM', KEYS[3], ARGV[i])
end
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return 1
