"""Reading the copies in each warehouse, by plain SQL."""
