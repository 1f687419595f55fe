"""A snapshot gives way while a physical replica of the source is behind, and goes on when it has caught up."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pipeline.postgres_lab import PostgresLab
from tests.integration.pipeline.tables.test_parts import KEYED, fill
from tests.integration.pipeline.tables.test_signals import change, until
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.models import Replicator, RunState, SnapshotRun
from webapp.worker.run.headless import HeadlessRun

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
BEHIND = 3  # seconds that the replica applies each commit late


@pytest.fixture
def lab(tmp_path: Path, transactional_db: Any) -> Iterator[PostgresLab]:
    """On a separate primary, with a standby that applies each commit `BEHIND` seconds late."""
    primary = EmbeddedPostgresSource(tmp_path / "primary", durable=False)
    primary.start()
    primary.stop()
    where = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password}"
    options = {"primary_conninfo": where, "recovery_min_apply_delay": f"{BEHIND}s"}
    replica = EmbeddedPostgresSource(tmp_path / "replica", durable=False, options=options)
    subprocess.run(["cp", "-a", str(primary.folder), str(replica.folder)], check=True)
    standby = replica.folder / "data" / "standby.signal"
    subprocess.run(
        ["cp", "-a", str(replica.folder / "data" / "PG_VERSION"), str(standby)], check=True
    )  # with its owner
    try:
        primary.start()
        replica.start()
        one = PostgresLab(primary.address, f"lab_{uuid.uuid4().hex[:8]}")
        yield one
        one.close()
    finally:
        replica.stop()
        primary.stop()


def test_a_snapshot_waits_while_a_replica_is_behind_and_goes_on_afterwards(lab: PostgresLab) -> None:
    lab.execute(KEYED)
    fill(lab, 1000)
    lab.replicate("t")
    lab.run_and_compare(1)
    change(lab, snapshot_most_lag_seconds=1)

    def waits(text: str) -> bool:
        lab.execute("UPDATE t SET v = v + 1 WHERE id = 1")
        time.sleep(0.2)
        return text in Replicator.objects.get(name=lab.name).snapshot_waits

    begun = time.monotonic()
    while time.monotonic() - begun < 2 * BEHIND:  # so that its lag is known before there is anything to read
        waits("")
    run = services.read_keys(table=lab.table("t"), keys=list(range(1000)))
    with HeadlessRun(lab.replicator):
        until(lambda: waits("A replica of the source is"))
        assert SnapshotRun.objects.get(pk=run.pk).rows_read == 0
        until(lambda: SnapshotRun.objects.get(pk=run.pk).state == RunState.DONE)  # without writes the lag ends
        assert Replicator.objects.get(name=lab.name).snapshot_waits == ""
    lab.run_and_compare(1)
