"""Replicators as code."""
