-- The first position of the batch of a position, if it is in the log. KEYS: segments. ARGV: position, prefix of the
-- streams.
local segment = redis.call('ZREVRANGEBYSCORE', KEYS[1], ARGV[1], '-inf', 'LIMIT', 0, 1)[1]
if not segment then
  return {}
end
local entry = redis.call('XREVRANGE', ARGV[2] .. segment, ARGV[1] .. '-0', '-', 'COUNT', 1)[1]
if not entry then
  return {}
end
local first_position = string.match(entry[1], '^%d+')
if tonumber(ARGV[1]) >= first_position + entry[2][2] then
  return {}
end
return {first_position}
