"""Replicators and their tables."""
