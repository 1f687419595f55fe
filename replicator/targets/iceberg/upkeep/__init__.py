"""Compaction, expiry, deletion."""
