SELECT key, content, extract(epoch FROM clock_timestamp() - written_at)::float8
FROM note
WHERE starts_with(key, %(prefix)s)
ORDER BY key
