-- Delete the journal as a whole, if the lease still has this grant. KEYS: lease, segments, carries, then the other keys
-- that a journal has once. ARGV: grant, how the keys of a segment begin: its stream, its rows.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
local segments = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, segment in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  segments[#segments + 1] = segment
end
for _, segment in ipairs(segments) do
  redis.call('UNLINK', ARGV[2] .. segment, ARGV[3] .. segment)
end
redis.call('UNLINK', unpack(KEYS))
return 1
