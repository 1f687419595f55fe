"""Snowflake for tests, as fakesnow plays it."""
