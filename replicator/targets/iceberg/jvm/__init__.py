"""Spark and its JVM."""
