"""What pages show, in the words and forms that they show it."""
