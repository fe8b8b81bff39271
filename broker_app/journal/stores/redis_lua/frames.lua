-- The next frames of the log, as many as fit into so many bytes, and one at least: first position, count, frame,
-- and so on. KEYS: segments. ARGV: position, bytes, prefix of the streams.
local position, room = tonumber(ARGV[1]), tonumber(ARGV[2])
local before = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], '-inf', 'LIMIT', 0, 1)
local segments = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'LIMIT', 0, 2)
if before[1] then
  table.insert(segments, 1, before[1])
end
local found = {}
for _, segment in ipairs(segments) do
  local from = ARGV[1] .. '-0'
  while room > 0 do
    local entries = redis.call('XRANGE', ARGV[3] .. segment, from, '+', 'COUNT', 16)
    for _, entry in ipairs(entries) do
      if #found == 0 or room > 0 then
        found[#found + 1] = string.match(entry[1], '^%d+')
        found[#found + 1] = entry[2][2]
        found[#found + 1] = entry[2][4]
        room = room - #entry[2][4]
      end
    end
    if #entries < 16 then
      break
    end
    from = '(' .. entries[16][1]
  end
end
return found
