-- The notes whose keys begin with a prefix: key, content, age in µs, and so on. KEYS: notes, their times.
-- ARGV: prefix.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local keys = redis.call('HKEYS', KEYS[1])
table.sort(keys)
local found = {}
for _, key in ipairs(keys) do
  if string.sub(key, 1, #ARGV[1]) == ARGV[1] then
    found[#found + 1] = key
    found[#found + 1] = redis.call('HGET', KEYS[1], key)
    found[#found + 1] = string.format('%.0f', now_us - redis.call('HGET', KEYS[2], key))
  end
end
return found
