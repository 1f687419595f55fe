"""Capture: from the source's log into the journal."""
