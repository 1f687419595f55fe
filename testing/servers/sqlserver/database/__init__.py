"""What stands in Postgres: types, system views, functions of T-SQL."""
