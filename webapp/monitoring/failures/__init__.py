"""Failures: read and shown."""
