"""Tables of the catalog: schema, commits, position."""
