"""Masked columns on live servers: equal to what the masks say, and nothing unmasked anywhere outside of the source."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.conf import settings
from django.core.management.base import CommandError
from django.db import connection

from replicator.model.masks import Mask, parse_masks
from tests.integration.pipeline.lab import Lab
from webapp.replicators import services
from webapp.replicators.models import ChunkRow, Replicator, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry, salt_of

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
MASKS = parse_masks(
    {
        "mail": "hash",
        "phone": {"kind": "partial", "first": 0, "last": 2},
        "note": "null",
        "name": {"kind": "fixed", "value": "somebody"},
        "salary": "hash",
    }
)
COLUMNS = (
    "(id INT PRIMARY KEY, mail VARCHAR(80), phone VARCHAR(40), note TEXT, name VARCHAR(80), salary DECIMAL(14,2), kept"
    " VARCHAR(20))"
)


@pytest.fixture
def mark() -> str:
    """In every text that must not be seen."""
    return f"Zq7{uuid.uuid4().hex[:8]}"


@pytest.fixture
def number() -> int:
    """With it begins every number that must not be seen."""
    return 10**9 + uuid.uuid4().int % 10**9


def row(one: int, mark: str, number: int) -> tuple[Any, ...]:
    secret = f"{mark}{one}"
    return (one, f"{secret}@x", f"{secret}12", f"n {secret}", f"N {secret}", number, "kept")


def insert(lab: Lab, mark: str, number: int, *ones: int) -> None:
    with lab.transaction() as cursor:
        rows = [row(one, mark, number) for one in ones]
        cursor.executemany("INSERT INTO people VALUES (%s, %s, %s, %s, %s, %s, %s)", rows)


def replicate(lab: Lab, masks: dict[str, Mask], table: str = "people") -> Replicator:
    entry = SelectionEntry(lab.database, table, masks=masks)
    connection_of = lab.connection()
    return services.create_replicator(name=lab.name, connection=connection_of, selection=[entry], start=True)


def seen_outside(mark: str) -> list[str]:
    """Where the mark stands: files of staging and warehouse (decoded), and rows of the metadata database."""
    found = []
    for url in (settings.TIDEMARK_STAGING_URL, settings.TIDEMARK_WAREHOUSE_URL):
        files = [path for path in Path(url.removeprefix("file://")).rglob("*") if path.is_file()]
        found += [str(path) for path in files if mark.encode() in path.read_bytes() or mark in _decoded(path)]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT count(*) FROM "{table}" t WHERE t::text LIKE %s', [f"%{mark}%"])
            if cursor.fetchone()[0]:
                found.append(table)
    return found


def _decoded(path: Path) -> str:
    return str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else ""


def test_nothing_unmasked_leaves_the_capture_process(
    any_lab: Lab, mark: str, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE people {COLUMNS}")
    insert(lab, mark, number, *range(1, 400))
    replicate(lab, MASKS)
    assert lab.run_and_compare(1) == 399
    lab.execute(
        "UPDATE people SET kept = 'other' WHERE id % 7 = 0",
        f"UPDATE people SET mail = 'new {mark}', note = NULL, phone = 'x{mark}' WHERE id % 5 = 0",
        "UPDATE people SET salary = salary + 0.5, mail = NULL WHERE id % 11 = 0",
        "DELETE FROM people WHERE id % 13 = 0",
        "UPDATE people SET id = id + 1000 WHERE id % 17 = 0",
    )
    insert(lab, mark, number, 5000, 5001)
    lab.run_and_compare(1)
    assert seen_outside(mark) == []
    assert seen_outside(str(number)) == [], "a number that is hashed"
    out = capfd.readouterr()
    assert mark not in out.out + out.err


def test_a_masked_key_is_hashed_and_its_values_are_in_no_bound(any_lab: Lab, mark: str) -> None:
    lab = any_lab
    lab.execute("CREATE TABLE t (id VARCHAR(40) PRIMARY KEY, v INT)")
    with lab.transaction() as cursor:
        cursor.executemany("INSERT INTO t VALUES (%s, %s)", [(f"{mark}{n}", n) for n in range(3000)])
    replicate(lab, parse_masks({"id": "hash"}), "t")
    assert lab.run_and_compare(1) == 3000
    lab.execute(
        f"UPDATE t SET v = -1 WHERE id = '{mark}7'",
        f"DELETE FROM t WHERE id = '{mark}8'",
        f"UPDATE t SET id = '{mark}moved' WHERE id = '{mark}9'",
        f"INSERT INTO t VALUES ('{mark}new', 1)",
    )
    assert lab.run_and_compare(1) == 3000
    assert SnapshotRun.objects.filter(table__replicator=lab.replicator).count() == 1
    assert ChunkRow.objects.filter(run__table__replicator=lab.replicator).count() == 1
    assert seen_outside(mark) == []


def test_a_change_of_masks_makes_the_copy_anew(any_lab: Lab, mark: str, number: int) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE people {COLUMNS}")
    insert(lab, mark, number, *range(1, 50))
    replicate(lab, {})
    lab.run_and_compare(1)
    insert(lab, mark, number, 60)
    changed = SelectionEntry(lab.database, "people", masks=MASKS)
    services.add_tables(replicator=lab.replicator, selection=[changed])
    insert(lab, mark, number, 61)
    assert lab.run_and_compare(1) == 51
    salt = salt_of(lab.replicator)
    lab.execute("DELETE FROM people WHERE id = 3")
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "people")])
    assert lab.run_and_compare(1) == 50
    services.add_tables(replicator=lab.replicator, selection=[changed])
    assert lab.run_and_compare(1) == 50
    assert salt == salt_of(lab.replicator)
    assert len(salt) == 64


def test_a_renamed_column_stops_the_table_and_is_not_staged(any_lab: Lab, mark: str, number: int) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE people {COLUMNS}", "CREATE TABLE other (id INT PRIMARY KEY)")
    insert(lab, mark, number, 1, 2)
    replicate(lab, MASKS)
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "other")])
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE people RENAME COLUMN mail TO post", "INSERT INTO other VALUES (1)")
    insert(lab, mark, number, 3)
    with pytest.raises(CommandError, match="people has no column mail"):
        lab.run()
    table = lab.table("people")
    assert (table.state, table.error_code) == ("failed", "selection_does_not_fit")
    assert "mail" in table.error_message
    assert seen_outside(mark) == []
    renamed = {("post" if name == "mail" else name): mask for name, mask in MASKS.items()}
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "people", masks=renamed)])
    assert lab.run_and_compare(2) == 4


def test_a_table_that_failed_by_its_mask_ends_when_its_source_drops_it(any_lab: Lab, mark: str, number: int) -> None:
    lab = any_lab
    lab.execute(f"CREATE TABLE people {COLUMNS}", f"CREATE TABLE persons {COLUMNS}")
    insert(lab, mark, number, 1, 2)
    lab.execute("INSERT INTO persons SELECT * FROM people")
    replicate(lab, MASKS)
    services.add_tables(replicator=lab.replicator, selection=[SelectionEntry(lab.database, "persons", masks=MASKS)])
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE people RENAME COLUMN mail TO post")
    insert(lab, mark, number, 3)
    lab.execute("DROP TABLE people", f"UPDATE persons SET note = 'n {mark}'")
    assert lab.run_and_compare(1) == 2
    assert lab.table("people").state == "dropped"
    assert seen_outside(mark) == []
