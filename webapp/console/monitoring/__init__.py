"""Pages and API of what happened: charts, logs, failures, dead letters."""
