"""Connections to sources."""
