"""What is written, and where it lies."""
