-- The extent of the log: tag, epoch, low, end. Segments are deleted whole, so a gap is between two of them: from
-- the last one backwards, each must begin where the batch before it ends.
WITH RECURSIVE run (first_position) AS (
    SELECT (SELECT min(first_position) FROM batch WHERE segment = newest.segment)
    FROM (
        SELECT segment FROM batch WHERE positions IS NULL ORDER BY first_position DESC LIMIT 1
    ) AS newest
    UNION ALL
    SELECT (SELECT min(first_position) FROM batch WHERE segment = before.segment)
    FROM run CROSS JOIN LATERAL (
        SELECT segment, first_position + count AS following
        FROM batch
        WHERE positions IS NULL AND batch.first_position < run.first_position
        ORDER BY batch.first_position DESC
        LIMIT 1
    ) AS before
    WHERE before.following = run.first_position
), stored AS (
    SELECT greatest(
        (SELECT first_position + count FROM batch WHERE positions IS NULL ORDER BY first_position DESC LIMIT 1),
        (SELECT position FROM snapshot WHERE part = 0),
        1
    ) AS log_end
)
SELECT lease.tag, lease.epoch, coalesce((SELECT min(first_position) FROM run), log_end), log_end
FROM lease CROSS JOIN stored
WHERE lease.epoch > 0
