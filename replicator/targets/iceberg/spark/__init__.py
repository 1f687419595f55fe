"""Merges as Spark jobs."""
