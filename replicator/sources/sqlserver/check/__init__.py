"""The connection test."""
