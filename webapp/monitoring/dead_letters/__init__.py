"""Rows that cannot be decoded, kept until somebody decides."""
