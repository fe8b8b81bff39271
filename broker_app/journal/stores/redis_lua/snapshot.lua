-- Replace the snapshot by the one whose parts are written, if the lease still has this epoch. KEYS: lease,
-- snapshot, parts of the new one, parts of the other. ARGV: grant, position, which parts.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], 'position', ARGV[2], 'parts', ARGV[3])
redis.call('UNLINK', KEYS[4])
return 1
