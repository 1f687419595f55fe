"""How many lines of the log are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.browser.factories import make_connection, make_replicator
from webapp.monitoring.models import LogLine
from webapp.worker.upkeep.garbage_collection import _old_rows

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def test_one_replicator_and_one_level_take_nothing_from_the_others(settings: Any) -> None:
    """A debug line for each merge of two busy replicators left six hours of everything else."""
    settings.TIDEMARK_LOG_LINES = 10
    connection = make_connection()
    busy, calm = (make_replicator(connection, name) for name in ("busy", "calm"))
    for number in range(30):
        for level in ("debug", "info"):
            LogLine.objects.create(replicator=busy, level=level, stage="merge", message=f"{level} {number}")
        if number < 5:
            LogLine.objects.create(replicator=busy, level="error", stage="merge", message=f"error {number}")
            LogLine.objects.create(replicator=calm, level="info", stage="merge", message=f"calm {number}")
    old = LogLine.objects.create(replicator=calm, level="error", stage="merge", message="of long ago")
    LogLine.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(days=8))
    _old_rows(timezone.now())
    kept = set(LogLine.objects.values_list("message", flat=True))
    assert kept == {
        *(f"{level} {number}" for level in ("debug", "info") for number in range(20, 30)),
        *(f"error {number}" for number in range(5)), *(f"calm {number}" for number in range(5)),
    }  # fmt: skip
