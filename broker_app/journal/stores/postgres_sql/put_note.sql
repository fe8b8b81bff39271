INSERT INTO note (key, content, written_at) VALUES (%(key)s, %(content)s, clock_timestamp())
ON CONFLICT (key) DO UPDATE SET content = excluded.content, written_at = excluded.written_at
