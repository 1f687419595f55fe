"""SELECTs to columns of values."""
