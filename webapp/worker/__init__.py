"""State store, leases, supervisor and tasks: where the engine meets Django and Celery."""
