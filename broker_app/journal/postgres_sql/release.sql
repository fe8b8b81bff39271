UPDATE lease SET expires_at = clock_timestamp() WHERE epoch = %(epoch)s AND holder = %(holder)s
