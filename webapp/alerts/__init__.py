"""Alerts: what is watched of every replicator, when it fired and cleared, and which channels are notified."""
