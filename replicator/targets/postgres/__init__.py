"""The Postgres target: a dialect of `targets/warehouse/`."""
