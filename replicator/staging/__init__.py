"""Segments: immutable staged Parquet files."""
