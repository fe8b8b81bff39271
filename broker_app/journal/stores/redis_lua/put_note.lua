-- Write a note. KEYS: notes, their times. ARGV: key, content.
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', time[1] * 1000000 + time[2]))
