"""What a replicator takes of its source."""
