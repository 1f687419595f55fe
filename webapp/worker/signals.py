"""Signals about work, for the apps above this one (`webapp.telemetry`)."""

from __future__ import annotations

from django.dispatch import Signal

failed = Signal()  # replicator_id, stage, code, retried: one failed attempt, in the transaction that records it
looked = Signal()  # now and then, by a process that works without Celery
