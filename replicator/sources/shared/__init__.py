"""What relational sources have in common, said once."""
