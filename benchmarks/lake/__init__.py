"""Merges into Iceberg tables."""
