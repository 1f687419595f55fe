"""Merges in Arrow, committed through Iceberg's API."""
