"""Bulk publishing: rows that clients stage in files, and batches of them that are committed exactly once.

Stages are files until their batch is committed: they are not messages yet, and need no journal. `stage_store`
keeps them, `part` is the format of a file, `batch_commits` publishes batches."""
