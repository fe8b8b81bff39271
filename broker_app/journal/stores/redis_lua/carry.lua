-- Begin a carry segment, or add survivors to it, if the lease still has this epoch. KEYS: lease, stream of the
-- segment, its rows. ARGV: grant, 1 to begin, then first position, positions, frame of each.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('DEL', KEYS[2], KEYS[3])
end
for i = 3, #ARGV, 3 do
  redis.call('XADD', KEYS[2], ARGV[i] .. '-0', 'positions', ARGV[i + 1], 'frame', ARGV[i + 2])
  redis.call('RPUSH', KEYS[3], ARGV[i] .. ' ' .. #ARGV[i + 2] .. ' ' .. ARGV[i + 1])
end
return 1
