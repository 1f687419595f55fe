"""Every change is counted once, by its own commit time, whichever way its rows took into the target."""

from __future__ import annotations

import time

import pytest
from django.db.models import Sum

from tests.integration.pipeline.lab import Lab, insert
from webapp.monitoring.models import LagRow, LagSpan, LogLine
from webapp.replicators.models import ReplicatorTable

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
LONGEST = 60_000_000  # microseconds from a commit to its being readable, at worst


def counted(table: ReplicatorTable | None, lab: Lab) -> tuple[int, int]:
    """Measured and unmeasured events: of one table, or of all together."""
    rows = LagRow.objects.filter(replicator=lab.replicator, table=table, span=LagSpan.HOUR)
    sums = rows.aggregate(events=Sum("events"), unmeasured=Sum("unmeasured"))
    return sums["events"] or 0, sums["unmeasured"] or 0


def ways(table: ReplicatorTable) -> set[str]:
    found = LogLine.objects.filter(replicator=table.replicator, table=str(table), detail__has_key="how")
    return {line.detail["how"] for line in found}


def test_direct_merges_spark_merges_and_loads_are_counted_alike(lab: Lab) -> None:
    lab.execute(
        "CREATE TABLE small (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE floating (id DOUBLE PRIMARY KEY, v INT)",
        "CREATE TABLE keyless (id INT, v INT)",
    )
    names = ("small", "floating", "keyless")
    with lab.transaction() as cursor:
        for name in names:
            insert(cursor, name, [(n, n) for n in range(2000)])
    lab.replicate(*names)
    lab.run()
    before = {name: counted(lab.table(name), lab) for name in names}
    assert {events for events, _ in before.values()} == {0}  # rows that were there have no lag
    time.sleep(1.2)  # the log tells seconds: what is committed now is later than the end of the load
    for name in names:
        for n in range(3):
            lab.execute(f"UPDATE {name} SET v = -1 WHERE id = {n}", f"DELETE FROM {name} WHERE id = {1000 + n}")
            lab.execute(f"INSERT INTO {name} VALUES ({5000 + n}, 1), ({6000 + n}, 1)")
            time.sleep(0.4)
    lab.run_and_compare(3)
    for name in names:
        table = lab.table(name)
        events, unmeasured = counted(table, lab)
        assert events == 12, name
        assert unmeasured == before[name][1]
        assert events + unmeasured == table.rows_inserted + table.rows_updated + table.rows_deleted
        assert 0 < LagRow.objects.get(table=table, span=LagSpan.HOUR).lag_max_us < LONGEST
    assert counted(None, lab)[0] == 36
    assert any("direct" in way for way in ways(lab.table("small"))), ways(lab.table("small"))
    assert any("Spark" in way for way in ways(lab.table("floating"))), ways(lab.table("floating"))
    assert any("Spark" in way for way in ways(lab.table("keyless"))), ways(lab.table("keyless"))
