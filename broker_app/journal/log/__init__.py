"""The journal in segment files of its own, the default: writing, reading, compaction, recovery."""
