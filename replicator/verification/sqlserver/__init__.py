"""SQL Server as verification reads it."""
