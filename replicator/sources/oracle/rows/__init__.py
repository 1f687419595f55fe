"""SQL_REDO to columns of values."""
