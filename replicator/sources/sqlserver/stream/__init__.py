"""Reading change tables as a log."""
