"""Definitions, and who may do what."""
