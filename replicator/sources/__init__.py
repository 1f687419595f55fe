"""Sources: one folder each, and one line in `registry`."""
