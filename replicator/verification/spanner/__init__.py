"""Reading target tables in Spanner."""
