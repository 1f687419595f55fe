"""The journal and what the engine's ports store."""
