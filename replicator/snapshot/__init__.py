"""Snapshots while the log flows: planning, windows, throttle.  DESIGN.md "Snapshots"."""
