"""The Amazon Redshift target: a dialect of `targets/warehouse/` (ADR 48)."""
