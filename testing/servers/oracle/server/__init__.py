"""The process that listens, and how a test starts it."""
