"""What the server sends: packets, frames, events."""
