"""BigQuery for tests: its REST API, played by DuckDB."""
