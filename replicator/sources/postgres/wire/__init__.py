"""What the server sends: the socket, frames, messages."""
