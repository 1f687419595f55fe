"""The Snowflake target: a dialect of `targets/warehouse/`."""
