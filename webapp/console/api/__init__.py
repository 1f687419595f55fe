"""Replicators in the REST API."""
