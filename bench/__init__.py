"""Speed and memory, measured beside nginx and bare SQLite in the same run."""
