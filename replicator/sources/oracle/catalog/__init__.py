"""What the server says of its tables."""
