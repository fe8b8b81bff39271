-- The next frames of the log, as many as fit into so many bytes, and one at least.
SELECT first_position, count, frame
FROM (
    SELECT first_position, count, frame,
        sum(octet_length(frame)) OVER (ORDER BY first_position) - octet_length(frame) AS before
    FROM (
        SELECT first_position, count, frame
        FROM batch
        WHERE positions IS NULL AND first_position >= %(position)s
        ORDER BY first_position
        LIMIT 256
    ) AS following
) AS sized
WHERE before < %(bytes)s
ORDER BY first_position
