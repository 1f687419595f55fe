"""An exercise for the target port: a third target, as one folder and one registry line.  Tables in a DuckDB file."""
