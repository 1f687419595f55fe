"""Apache Iceberg tables in a JDBC catalog, changed by Spark; README.md is the guide."""
