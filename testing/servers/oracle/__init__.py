"""A stand-in for Oracle Database, for tests: Oracle's protocol, SQL and redo log, over a Postgres database."""
