"""What happened: failures, logs, timeline, metrics."""
