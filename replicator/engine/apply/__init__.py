"""The apply loop: from the journal into the target."""
