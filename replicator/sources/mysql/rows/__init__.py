"""Row events to columns of values."""
