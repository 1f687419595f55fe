"""What the whole product does in a second, from the source's log to rows that can be queried."""
