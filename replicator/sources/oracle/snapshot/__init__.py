"""Flashback queries to columns of values."""
