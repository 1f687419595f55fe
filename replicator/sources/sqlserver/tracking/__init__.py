"""Change Tracking as a log: which rows changed since a version, as they are now (ADR 52)."""
