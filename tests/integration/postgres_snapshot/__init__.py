"""Snapshots of a live Postgres."""
