"""The control plane: the only place that wires the engine (`replicator/`) to Django and Celery."""
