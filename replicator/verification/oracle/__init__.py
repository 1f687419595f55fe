"""Oracle, read for comparisons."""
