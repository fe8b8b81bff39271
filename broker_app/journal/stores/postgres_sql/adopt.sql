-- Continue another journal in this one, if the lease still has this epoch and this holder.
UPDATE lease
SET tag = %(tag)s, created_us = %(created_us)s, epoch = greatest(epoch, %(least)s)
WHERE epoch = %(epoch)s AND holder = %(holder)s
RETURNING epoch, tag, created_us
