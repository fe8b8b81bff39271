UPDATE lease SET expires_at = 'epoch' WHERE epoch = %(epoch)s AND holder = %(holder)s
