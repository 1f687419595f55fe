"""T-SQL: batches to statements, statements to Postgres' SQL."""
