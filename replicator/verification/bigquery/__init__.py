"""Reading BigQuery, with nothing of the pipeline."""
