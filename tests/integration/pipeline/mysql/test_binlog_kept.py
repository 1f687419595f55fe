"""The binary log that MySQL and MariaDB keep for an idle replicator: shown, and reported when it was purged."""

from __future__ import annotations

import pytest

from replicator.sources.mysql.offset import BinlogOffset, parse_offset
from tests.integration.pipeline.lab import Lab
from tests.integration.regressions_of_other_tools.purging import purge_everything_old
from webapp.monitoring.models import GaugeRow, TimelineEvent
from webapp.replicators.source_log import log_kept
from webapp.worker.run import headless
from webapp.worker.upkeep import source_log_retention

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]


def test_the_log_behind_the_checkpoint_is_shown_and_missed_when_it_is_purged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headless, "WATCH_SECONDS", 0.5)
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)", "INSERT INTO t VALUES (0, 'x')")
    lab.replicate()
    lab.run_and_compare(1)  # a run without a supervisor has looked itself
    assert GaugeRow.objects.filter(replicator=lab.replicator, table=None, log_kept__isnull=False).exists()
    checkpoint = parse_offset(lab.replicator.checkpoint_offset or {})
    lab.execute("INSERT INTO t VALUES (1, REPEAT('y', 3000000))", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2, 'z')")
    source_log_retention.watch()
    end = lab.log_end()
    kept = log_kept(lab.replicator)
    assert kept is not None
    assert kept.bytes is not None
    assert (kept.status, kept.concern) == ("binary log", "")
    assert 3_000_000 < kept.bytes < 3_010_000 + end.position
    assert BinlogOffset(end.file, 0).sequence == checkpoint.sequence + 1
    purge_everything_old(lab)
    source_log_retention.watch()
    kept = log_kept(lab.replicator)
    assert kept is not None
    assert (kept.bytes, kept.status, kept.concern) == (None, "purged", "lost")
    source_log_retention.watch()
    assert TimelineEvent.objects.filter(replicator=lab.replicator, kind="log_lost").count() == 1
