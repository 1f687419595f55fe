"""An emulator of SQL Server for tests: TDS to the real driver, T-SQL and CDC over a live Postgres."""
