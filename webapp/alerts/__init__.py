"""Alerts: what is watched of every replicator, when it fired and cleared, and who is told."""
