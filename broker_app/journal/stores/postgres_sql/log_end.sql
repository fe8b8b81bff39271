-- The end of what is stored: of the log, or of the snapshot if all before it was compacted.
SELECT greatest(
    (SELECT first_position + count FROM batch WHERE positions IS NULL ORDER BY first_position DESC LIMIT 1),
    (SELECT position FROM snapshot WHERE part = 0),
    0
)
