-- The extent of the log: tag, epoch, low, end; nothing if the journal was never held. Segments are deleted whole, so a
-- gap is between two of them: from the last one backwards, each must begin where the batch before it ends.
-- KEYS: lease, segments, snapshot. ARGV: prefix of the rows of segments, first position of a journal.
local lease = redis.call('HMGET', KEYS[1], 'tag', 'epoch')
if not lease[2] or lease[2] == '0' then
  return {}
end
local low, log_end
local segments = redis.call('ZREVRANGE', KEYS[2], 0, -1)
for _, segment in ipairs(segments) do
  local rows = ARGV[1] .. segment
  local last = redis.call('LINDEX', rows, -1)
  if last then
    local first_position, count = string.match(last, '^(%d+) (%d+)')
    local following = first_position + count
    if low and following ~= low then
      break
    end
    low = tonumber(string.match(redis.call('LINDEX', rows, 0), '^%d+'))
    log_end = log_end or following
  end
end
if not log_end then
  log_end = tonumber(redis.call('HGET', KEYS[3], 'position') or ARGV[2])
  low = log_end
end
return {lease[1], lease[2], string.format('%.0f', low), string.format('%.0f', log_end)}
