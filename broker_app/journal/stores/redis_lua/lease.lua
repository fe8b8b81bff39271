-- The lease: holder, address, epoch, µs that are left, or nothing if its holder gave it back. KEYS: lease.
local found = redis.call('HMGET', KEYS[1], 'holder', 'address', 'epoch', 'expires_us')
if not found[3] or found[3] == '0' then
  return {}
end
if found[4] == '0' then
  return {found[1], found[2], found[3], ''}
end
local time = redis.call('TIME')
return {found[1], found[2], found[3], string.format('%.0f', found[4] - (time[1] * 1000000 + time[2]))}
