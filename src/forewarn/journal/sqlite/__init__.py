"""The embedded journal: one SQLite file with snapshots and an index beside it."""
