"""Types and values."""
