"""Reading a log, by ours and by others."""
