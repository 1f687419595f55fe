"""Reading Snowflake, with nothing of the pipeline."""
