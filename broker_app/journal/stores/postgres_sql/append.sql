-- Store a batch if the lease still has this epoch. FOR KEY SHARE waits for a takeover that is under way, and holds
-- up one that begins: so a batch is stored before the takeover, or not at all.
WITH held AS (
    SELECT 1 FROM lease WHERE epoch = %(epoch)s AND holder = %(holder)s FOR KEY SHARE
), stored AS (
    INSERT INTO batch (segment, first_position, count, frame)
    SELECT %(segment)s, %(first_position)s, %(count)s, %(frame)s FROM held
    ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM held)
