"""Values and rows of change tables as Arrow."""
