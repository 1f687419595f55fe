"""Pull streams: a replicator's changes, in shards, read from segments by cursors."""
