"""Pages of what acts on messages by itself: bridges, mirrors, callbacks, reflexes, services, pipelines."""
