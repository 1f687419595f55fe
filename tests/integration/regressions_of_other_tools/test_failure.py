"""How trouble with one table, or with one request, became everybody's elsewhere; each test is named after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from replicator.engine import snapshot
from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from tests.integration.pipeline.lab import Lab
from webapp.replicators import services
from webapp.replicators.models import RunState, SegmentRow, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.failure import retry_policy

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]

EDGES = (
    "snapshot.claim.after", "snapshot.low.after", "snapshot.select.after", "snapshot.select.rows",
    "snapshot.file.after",
    "snapshot.chunk.after", "snapshot.high.after",
)  # fmt: skip


def test_an_insert_and_a_quick_update_give_two_rows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """olake #1189, databricks/iceberg-kafka-connect #260: a row made and changed within one load or batch is there
    twice.

    Tidemark drops from a chunk what the log touched in its window, and merges the log's segments once, with a guard.
    """
    lab.execute("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "CREATE TABLE keyless (id INT, v INT)")
    lab.execute("INSERT INTO keyed VALUES (1, 0), (1000, 0)", "INSERT INTO keyless VALUES (1, 0), (1, 0)")
    writer, made = lab.connect(database=lab.database), []

    def reach(point: str) -> None:
        """At every edge of a chunk's reading: a new row, changed at once, and the one before changed again."""
        if point in EDGES and len(made) < 4 * len(EDGES):
            n = 10 + len(made)
            made.append(point)
            with writer.cursor() as cursor:
                cursor.execute(f"INSERT INTO keyed VALUES ({n}, 0)")
                cursor.execute(f"UPDATE keyed SET v = v + 1 WHERE id IN (1, {n - 1}, {n})")
                if not point.startswith(
                    ("snapshot.low", "snapshot.select")
                ):  # else its view never finds the table quiet
                    cursor.execute(f"INSERT INTO keyless VALUES ({n}, 0)")
                    cursor.execute(f"UPDATE keyless SET v = v + 1 WHERE id IN (1, {n})")

    monkeypatch.setattr(snapshot, "reach", reach)
    lab.replicate(options={"snapshot_parallel": 1})
    lab.run()
    rows = lab.run_and_compare(2)
    writer.close()
    assert set(made) == set(EDGES)
    with lab.sql.cursor() as cursor:
        cursor.execute("SELECT (SELECT COUNT(*) FROM keyed) + (SELECT COUNT(*) FROM keyless)")
        assert rows == cursor.fetchone()[0]
    kinds = SegmentRow.objects.filter(table__name="keyed").values_list("kind", flat=True)
    assert {"chunk", "log"} <= set(kinds)  # both ways were gone


@contextmanager
def rows_of_the_target_away(lab: Lab, table: str) -> Iterator[None]:
    """What a merge has to look at is not there for a while."""
    warehouse = Path(urlsplit(settings.TIDEMARK_WAREHOUSE_URL).path)
    files = [path for path in warehouse.rglob("*.parquet") if f"/{lab.database}/{table}-" in str(path)]
    assert files
    for path in files:
        path.rename(path.with_suffix(".away"))
    yield
    for path in files:
        path.with_suffix(".away").rename(path)


def test_a_failing_table_blocks_the_rest(lab: Lab) -> None:
    """flink-cdc #3061, yugabyte-db #19434: one table of many fails, and the whole synchronisation stands until it is
    removed.

    Tidemark stops that table alone, says why and what to do; a resnapshot makes it well.
    """
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("ddl", "good", "merged")))
    lab.execute("CREATE TABLE refused (id INT PRIMARY KEY, d DATE NOT NULL)")
    for name in ("ddl", "good", "merged"):
        lab.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    lab.execute("SET SESSION sql_mode = ''", "INSERT INTO refused VALUES (1, '2024-01-01'), (2, '0000-00-00')")
    lab.replicate(options={"zero_dates": "fail", "retry_minutes": 0, "ddl_policy": {"add_column": "stop"}})
    with pytest.raises(CommandError, match="refused failed"):
        lab.run()  # refused by its snapshot
    assert lab.states() == {"ddl": "streaming", "good": "streaming", "merged": "streaming", "refused": "failed"}
    assert lab.table("refused").error_code == "value_does_not_fit"
    lab.execute("ALTER TABLE ddl ADD COLUMN w INT DEFAULT 7", "UPDATE good SET v = 20 WHERE id = 2")
    lab.execute("UPDATE merged SET v = 20 WHERE id = 2", "INSERT INTO good VALUES (3, 3)")
    with rows_of_the_target_away(lab, "merged"), pytest.raises(CommandError) as failed:
        lab.run()
    states = lab.states()
    assert states == {"ddl": "failed", "good": "streaming", "merged": "failed", "refused": "failed"}, lab.table(
        "merged"
    )
    for name in ("ddl", "merged", "refused"):
        assert lab.table(name).error_message
        assert lab.table(name).error_remedy
        assert f"{lab.database}.{name}" in str(failed.value)
    [good] = [report for report in lab.compare() if report.pair.table == "good"]
    assert good.equal, good.lines()
    assert lab.replicator.status != "failed"
    lab.execute("UPDATE refused SET d = '2024-02-02' WHERE id = 2")
    with pytest.raises(CommandError):
        lab.run()  # past the repair: what a row was before stands in the log, too
    lab.execute("INSERT INTO ddl VALUES (3, 3, 3)")
    for name in ("ddl", "merged", "refused"):
        services.resnapshot_table(table=lab.table(name))
    assert lab.run_and_compare(4) == 3 + 3 + 2 + 2
    assert set(lab.states().values()) == {"streaming"}


class Requests:
    """Asks for a reload of a table through the services and the API in turn; gives the refusal's text, "" for none."""

    def __init__(self, lab: Lab) -> None:
        self._lab, self._turn = lab, 0
        Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # WhiteNoise warns where there is none
        self._client = APIClient()
        self._client.force_authenticate(User.objects.create_superuser("ada"))

    def reload(self, name: str) -> str:
        self._turn += 1
        if self._turn % 2:
            try:
                services.resnapshot_table(table=self._lab.table(name), reason="asked")
            except ConfigurationError as error:
                return error.message if error.remedy else ""
            return ""
        return self._posted(self._lab.table(name).pk)

    def _posted(self, pk: int) -> str:
        url = f"/api/v1/replicators/{self._lab.replicator.pk}/tables/{pk}/resnapshot/"
        answer = self._client.post(url, {"reason": "asked"}, format="json")
        if answer.status_code == 200:
            return ""
        assert 400 <= answer.status_code < 500, answer.content
        body: dict[str, Any] = answer.json()
        assert body["remedy"]
        return str(body["message"])

    def reload_of_nothing(self, pk: int) -> str:
        """Of a table that the replicator does not have."""
        return self._posted(pk)


def test_an_invalid_snapshot_request_wedges_the_replicator(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """debezium/dbz#1533: a snapshot signal that names no table, or a wrong one, and nothing is streamed any more.

    Tidemark refuses it with a reason, or does it; changes go on being copied either way.
    """
    monkeypatch.setattr(retry_policy, "ANNOUNCED_WINDOW", timedelta(seconds=1))
    names = ("dropped", "empty", "excluded", "failed", "t")
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in names))
    lab.execute(*(f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in names if name != "empty"))
    lab.replicate()
    asked = Requests(lab)
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "t")])
    assert asked.reload("t") == ""  # nothing was read yet: it waits for capture
    lab.run_and_compare(5)
    out = TableId(lab.database, "excluded")
    gone = lab.table("excluded").pk
    services.remove_table(replicator=lab.replicator, table=out)
    assert asked.reload_of_nothing(gone)
    assert asked.reload_of_nothing(0)
    lab.execute(
        "DROP TABLE dropped", "SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE failed SET v = 3 WHERE id = 1"
    )
    lab.execute("SET SESSION binlog_row_image = 'FULL'")
    with pytest.raises(CommandError):
        lab.run()
    assert lab.states() == {"dropped": "dropped", "empty": "streaming", "failed": "failed", "t": "streaming"}
    for _ in range(2):  # both ways
        assert "no longer exists in the source" in asked.reload("dropped")
    for name in ("empty", "failed", "t", "t"):  # twice at once: the second takes the first one's place
        assert asked.reload(name) == ""
    lab.execute("UPDATE t SET v = 20 WHERE id = 2", "DELETE FROM t WHERE id = 1", "DELETE FROM failed WHERE id = 2")
    assert lab.run_and_compare(3) == 1 + 1
    runs = SnapshotRun.objects.filter(table__replicator=lab.replicator)
    assert not runs.filter(state__in=(RunState.PLANNING, RunState.READING)).exists()
    assert list(lab.table("t").runs.order_by("-id").values_list("state", flat=True)[:2]) == ["done", "cancelled"]
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "never_there")])
    lab.execute("INSERT INTO t VALUES (5, 5)")
    assert asked.reload("never_there") == ""
    with pytest.raises(CommandError, match="never_there no longer exists"):
        lab.run()
    assert lab.states() == {
        "dropped": "dropped",
        "empty": "streaming",
        "failed": "streaming",
        "never_there": "failed",
        "t": "streaming",
    }
    services.remove_table(replicator=lab.replicator, table=TableId(lab.database, "never_there"))
    assert lab.run_and_compare(3) == 2 + 1
