"""Random histories in batches cut anywhere, by the batch and by what fits into memory, end as a model says."""

from __future__ import annotations

import datetime as dt
import threading
from dataclasses import replace

import pytest

from replicator.errors import TableError
from replicator.model.mode import Mode
from replicator.targets.base import Append, Merge
from replicator.targets.delta import apply
from replicator.targets.delta.table import OpenTable
from tests.integration.delta.lake import DeltaLake
from tests.staged import delete, insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
KEYLESS = schema_of({"v": "string"})
SECOND = dt.timedelta(seconds=1)
KEPT = [Mode.SOFT_DELETE, Mode.HISTORY, Mode.CHANGELOG]


def test_columns_that_delta_lake_takes_for_one_stop_the_table(lake: DeltaLake) -> None:
    with pytest.raises(TableError, match="treats as the same column"):
        lake.table(schema_of({"id": "int", "a": "int", "A": "int"}, ["id"]))


def test_names_of_any_characters(lake: DeltaLake) -> None:
    odd = schema_of({"a.b": "int", 'q"`;': "string", "a": "string", "ä ö": "date"}, ["a.b"])
    tables = [lake.table(odd, name) for name in ("a/b", "..", "a b%2F#?", "~dropped", "x" * 255, "ö" * 200, "A", "a")]
    for number, table in enumerate(tables):
        lake.merge(table, odd, insert(0, number, "x", "y", None), insert(1, 99, "x", "y", dt.date(2020, 1, 1)))
        lake.merge(
            table, odd, delete(2, 99, "x", "y", None), update(3, (number, "x", "y", None), (number, "z", "", None))
        )
    assert [lake.rows(table) for table in tables] == [[(n, "z", "", None)] for n in range(len(tables))]
    assert len({lake.folder(table) for table in tables}) == len(tables)


def test_many_rows_make_files_that_statistics_tell_apart(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicator.targets.delta.live_files.ALONE", 1)
    table = lake.table(KEYED)
    for first in range(0, 400, 100):
        chunk = lake.segment(KEYED, [read(n, n, f"v{n}") for n in range(first, first + 100)])
        lake.target.apply(table, Append([chunk], KEYED, first + 99))
    before = lake.live_files(table)
    assert len(before) == 4
    lake.merge(table, KEYED, *[update(500 + n, (n, f"v{n}"), (n, "new")) for n in range(110, 120)])
    assert len(before & lake.live_files(table)) == 3
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    assert all(one.rows > 0 and one.low["id"] <= one.high["id"] and one.nulls["id"] == 0 for one in opened.files())
    assert lake.open(table).to_pyarrow_table(filters=[("id", "=", 115)]).num_rows == 1


def test_a_change_that_is_interrupted_leaves_nothing(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, insert(0, 1, "a"))
    opened = OpenTable.load(lake.store, table)
    assert opened is not None
    stop = threading.Event()
    stop.set()
    before = lake.data_files(table)
    segment = lake.segment(KEYED, [update(1, (1, "a"), (1, "b"))])
    with pytest.raises(Exception, match="interrupted"):
        apply.merge(lake.storage, opened, Merge([segment], KEYED, 1), replace(opened.position, applied=1), stop)
    assert lake.data_files(table) == before
    assert lake.rows(table) == [(1, "a")]
