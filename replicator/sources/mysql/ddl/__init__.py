"""DDL statements, parsed."""
