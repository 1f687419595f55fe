"""Row filters on live servers: rows that come into the filter and leave it, through snapshot, log and restart."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.core.management.base import CommandError

from replicator.model.masks import parse_masks
from replicator.model.row_filter import parse_filter
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import services
from webapp.replicators.models import SegmentRow
from webapp.replicators.selection.entries import SelectionEntry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
TABLE = "(id INT PRIMARY KEY, land VARCHAR(20), total DECIMAL(10,2), at TIMESTAMP NULL, big TEXT)"
FILTER = "land IN ('DE', 'ä') AND total >= 10.5 AND at IS NOT NULL"


def whole(lab: Lab, *tables: str) -> None:
    """Have Postgres log whole old rows; MariaDB does so anyway."""
    if isinstance(lab, PostgresLab):
        lab.execute(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in tables))


def taken(lab: Lab, table: str, row_filter: str, **more: Any) -> SelectionEntry:
    return SelectionEntry(lab.database, table, row_filter=parse_filter(row_filter), **more)


def replicate(lab: Lab, *entries: SelectionEntry) -> None:
    services.create_replicator(name=lab.name, connection=lab.connection(), selection=entries, start=True)


def row(one: int) -> tuple[Any, ...]:
    land = ("DE", "de", "AT", None, "ä")[one % 5]
    return one, land, one % 23, None if one % 7 == 0 else "2026-01-02 03:04:05", "x" * 20_000 if one % 3 == 0 else "y"


def insert(lab: Lab, *ones: int, table: str = "t") -> None:
    with lab.transaction() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s)", [row(one) for one in ones])


def test_rows_come_into_the_filter_and_leave_it(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE t {TABLE}", f"CREATE TABLE n {TABLE.replace(' PRIMARY KEY', '')}")
    whole(lab, "t", "n")
    insert(lab, *range(1, 700))
    insert(lab, *range(1, 100), table="n")
    replicate(lab, taken(lab, "t", FILTER, masks=parse_masks({"land": "hash", "big": "null"})), taken(lab, "n", FILTER))
    lab.run(timeout=600)  # a table without key brings Spark up
    first = lab.compare()
    assert all(report.equal for report in first), [report.lines() for report in first]
    assert 0 < first[0].target_rows < 99
    for table in ("t", "n"):
        lab.execute(
            f"UPDATE {table} SET land = 'DE' WHERE id % 4 = 0",
            f"UPDATE {table} SET total = total - 6 WHERE id % 6 = 0",
            f"UPDATE {table} SET at = NULL WHERE id % 10 = 1",
            f"UPDATE {table} SET land = 'de' WHERE id % 9 = 0",
            f"DELETE FROM {table} WHERE id % 13 = 0",
            f"UPDATE {table} SET total = 10.5, land = 'ä', at = '2026-05-05 00:00:00' WHERE id BETWEEN 40 AND 60",
            f"UPDATE {table} SET id = id + 5000 WHERE id % 17 = 0",
        )
        insert(lab, *range(800, 850), table=table)
    lab.run_and_compare(2)
    with lab.transaction() as cursor:  # in, out and in again, in one transaction
        cursor.execute("UPDATE t SET land = 'DE', total = 99, at = '2026-01-01 00:00:00' WHERE id = 2")
        cursor.execute("UPDATE t SET land = 'FR' WHERE id = 2")
        cursor.execute("UPDATE t SET land = 'DE' WHERE id = 2")
        cursor.execute("UPDATE t SET land = 'FR' WHERE id = 45")
    lab.run_and_compare(2)
    services.resnapshot_table(table=lab.table("t"))
    lab.execute("UPDATE t SET land = 'DE' WHERE id % 5 = 2")
    lab.run_and_compare(2)


def test_what_is_not_taken_is_not_staged(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE t {TABLE}")
    whole(lab, "t")
    insert(lab, *range(1, 100))
    replicate(lab, taken(lab, "t", "id < 10"))
    assert lab.run_and_compare(1) == 9
    lab.execute("UPDATE t SET total = 1 WHERE id >= 10", "DELETE FROM t WHERE id > 50")
    assert lab.run_and_compare(1) == 9
    segments = SegmentRow.objects.filter(table__replicator=lab.replicator)
    assert sum(segments.values_list("rows", flat=True)) == 9


def test_a_filter_is_changed_while_it_runs_and_stops_the_table_whose_column_goes(any_lab: Lab) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE t {TABLE}")
    whole(lab, "t")
    insert(lab, *range(1, 60))
    replicate(lab, taken(lab, "t", "id < 10"))
    assert lab.run_and_compare(1) == 9
    services.add_tables(replicator=lab.replicator, selection=[taken(lab, "t", "id >= 10")])
    insert(lab, 60)
    assert lab.run_and_compare(1) == 51
    services.add_tables(replicator=lab.replicator, selection=[taken(lab, "t", "total > 1")])
    lab.run_and_compare(1)
    lab.execute("ALTER TABLE t DROP COLUMN total", "INSERT INTO t VALUES (900, 'DE', NULL, 'x')")
    with pytest.raises(CommandError, match="column total of the row filter does not exist"):
        lab.run()
    table = lab.table("t")
    assert (table.state, table.error_code) == ("failed", "selection_does_not_fit")
    services.add_tables(replicator=lab.replicator, selection=[taken(lab, "t", "")])
    assert lab.run_and_compare(1) == 61


def test_a_log_without_whole_old_rows_is_refused_with_the_remedy(
    postgres_source: EmbeddedPostgresSource, transactional_db: Any
) -> None:
    lab = PostgresLab(postgres_source.address, f"lab_{uuid.uuid4().hex[:8]}")
    lab.execute(f"CREATE TABLE t {TABLE}")
    insert(lab, 1, 2)
    replicate(lab, taken(lab, "t", FILTER))
    with pytest.raises(CommandError, match="requires full before images"):
        lab.run()
    table = lab.table("t")
    assert (table.state, table.error_code) == ("failed", "selection_does_not_fit")
    assert "REPLICA IDENTITY FULL" in table.error_remedy
    whole(lab, "t")
    services.retry_table(table=table)
    lab.run_and_compare(1)
    lab.close()


def test_children_of_rows_that_are_not_taken_are_read_again(mariadb: EmbeddedMariaDB, transactional_db: Any) -> None:
    lab = Lab(mariadb.address, f"lab_{uuid.uuid4().hex[:8]}")
    lab.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES parent (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO parent VALUES (1), (2), (3)",
        "INSERT INTO child VALUES (10, 1), (20, 2), (30, 3)",
    )
    replicate(lab, taken(lab, "parent", "id > 2"), SelectionEntry(lab.database, "child"))
    assert lab.run_and_compare(2) == 4
    lab.execute("DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 7 WHERE id = 2")
    assert lab.run_and_compare(2) == 4
    lab.close()
