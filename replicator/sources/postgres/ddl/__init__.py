"""DDL that an event trigger reports."""
