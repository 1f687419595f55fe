"""Dead-letter rows: rows that cannot be decoded, kept until a user replays or discards them."""
