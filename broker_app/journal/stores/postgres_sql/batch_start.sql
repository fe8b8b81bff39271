-- The first position of the batch of a position, if it is in the log.
SELECT first_position
FROM (
    SELECT first_position, count
    FROM batch
    WHERE positions IS NULL AND first_position <= %(position)s
    ORDER BY first_position DESC
    LIMIT 1
) AS nearest
WHERE %(position)s < first_position + count
