"""Failures, retries, recovery."""
