"""Object stores for tests: S3, GCS and Azure, from packages."""
