"""What goes wrong in a history, and what makes it."""
