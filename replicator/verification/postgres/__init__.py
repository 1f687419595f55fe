"""Postgres, read for comparisons."""
