-- Add a part to a snapshot that is being written, if the lease still has this epoch. KEYS: lease, parts.
-- ARGV: grant, 1 to begin, content.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('DEL', KEYS[2])
end
redis.call('RPUSH', KEYS[2], ARGV[3])
return 1
