"""A seeded workload for a live MySQL, MariaDB or Postgres: random schemas, random histories, a player and a shrinker.

It shares nothing with the pipeline, which it puts to the proof, and nothing of the pipeline imports it.
"""
