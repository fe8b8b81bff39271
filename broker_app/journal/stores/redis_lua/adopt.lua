-- Continue another journal in this one, which is empty, if the lease still has this grant. KEYS: lease.
-- ARGV: grant, new grant, new epoch, tag, created_us.
if redis.call('HGET', KEYS[1], 'grant') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'grant', ARGV[2], 'epoch', ARGV[3], 'tag', ARGV[4], 'created_us', ARGV[5])
redis.call('HDEL', KEYS[1], 'end')
return 1
