"""Destinations: where replicators write to."""
