"""The SQLite engine: one file, shared by every process of one machine."""
