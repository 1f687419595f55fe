"""Reading rows that exist."""
