"""DDL, told by an event trigger."""
