"""Celery's part: the round that tells of lineage, and the workers' signs of life."""

from __future__ import annotations

import logging

from celery import shared_task

from replicator.errors import TidemarkError
from webapp.telemetry import delivery, heartbeats

LOGGER = logging.getLogger("tidemark.telemetry")
__all__ = ["heartbeats", "tell_lineage"]


@shared_task(name="tidemark.tell_lineage")
def tell_lineage() -> None:
    """Gather and deliver lineage every fifteen seconds, by beat, where a receiver is configured."""
    try:
        delivery.tell()
    except TidemarkError as error:
        LOGGER.error("OpenLineage: %s", error.message)  # noqa: TRY400 - it says enough
