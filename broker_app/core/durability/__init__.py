"""The state that survives: records of changes, snapshots, and recovery from both."""
