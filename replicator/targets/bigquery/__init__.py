"""The BigQuery target: a dialect of `targets/warehouse/`."""
