"""DDL, as statements in the redo log."""
