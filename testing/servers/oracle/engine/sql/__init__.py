"""Queries and changes: Oracle's SQL as Postgres'."""
