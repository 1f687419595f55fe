"""Spark: the process's session, and the folds of staged changes."""
