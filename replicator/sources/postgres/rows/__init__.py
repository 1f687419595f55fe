"""Row messages to columns of values."""
