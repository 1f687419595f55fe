"""Servers that only tests use, from packages."""
