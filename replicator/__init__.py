"""The engine: capture, snapshot, staging, merge.  It knows no Django and no Celery."""
