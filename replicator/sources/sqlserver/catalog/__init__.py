"""What there is on the server: tables, their columns and keys, capture instances."""
