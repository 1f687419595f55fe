"""A segment reads the same, whether its file has whole changes or bare rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, REPLACED, Column, TableSchema
from replicator.model.types import INT, STRING
from replicator.staging import reader
from replicator.staging.reader import read
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind

TABLE = TableId("shop", "t")
COLUMNS = (
    Column("k", INT, nullable=False, source_type="int"),
    Column("k.v", STRING, nullable=True, source_type="text"),
)
SCHEMA = TableSchema(TABLE, COLUMNS, ("k",), partial=True)
ROWS = [{"k": k, "k.v": None if k == 3 else f"v{k}"} for k in range(7)]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path.as_uri())


def staged(storage: Storage, data: pa.Table, **told: object) -> Segment:
    with storage.writer("file", data.schema) as writer:
        writer.write_table(data, row_group_size=3)
    span = {"first_sequence": 10, "last_sequence": 16, "rows": data.num_rows, "size": 1, "reads": data.num_rows}
    return Segment(TABLE, SegmentKind.CHUNK, 1, path="file", **{**span, **told})  # type: ignore[arg-type]


def bare(storage: Storage, *without: int) -> Segment:
    arrow = SCHEMA.row_arrow.append(pa.field(REPLACED, pa.int32()))
    rows = [{**row, REPLACED: 1} for row in ROWS]
    return staged(storage, pa.Table.from_pylist(rows, schema=arrow), bare=True, without=without)


def whole(storage: Storage, *without: int) -> Segment:
    changes = [
        {**row, "_sequence_num": 10 + place, "_operation": "READ"}
        for place, row in enumerate(ROWS)
        if place not in without
    ]
    return staged(storage, pa.Table.from_pylist(changes, schema=SCHEMA.change_arrow))


@pytest.mark.parametrize("without", [(), (0,), (2, 3, 6), tuple(range(6))])
@pytest.mark.parametrize("batch_rows", [1, 2, 4, 100])
@pytest.mark.parametrize(
    "names",
    [SCHEMA.change_arrow.names, ["k.v", "k", "_sequence_num"], ["_sequence_num"], ["k"], ["_operation", BEFORE + "k"]],
)
def test_bare_rows_read_as_the_changes_that_they_are(
    storage: Storage, without: tuple[int, ...], batch_rows: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MIN_ROWS", batch_rows)
    arrow = pa.schema([SCHEMA.change_arrow.field(name) for name in names])
    found = pa.Table.from_batches(read(storage, bare(storage, *without), SCHEMA, names), arrow)
    told = pa.Table.from_batches(read(storage, whole(storage, *without), SCHEMA, names), arrow)
    assert found.equals(told)
    assert found.num_rows == len(ROWS) - len(without)


@pytest.mark.parametrize(
    ("dictionaries", "each", "expected"),
    [(True, 1, 2048), (False, 1, 65_536), (False, 4096, 2048), (False, 400, 20_000)],
)
def test_batches_are_large_where_their_size_is_known(
    storage: Storage, dictionaries: bool, each: int, expected: int
) -> None:
    rows = 70_000
    data = pa.table({"k": pa.array(range(rows), pa.int32()), "k.v": pa.array(["x" * each] * rows)})
    with storage.writer("file", data.schema, use_dictionary=dictionaries) as writer:
        writer.write_table(data)
    segment = Segment(TABLE, SegmentKind.CHUNK, 1, 0, rows - 1, "file", rows, 1, reads=rows, bare=True)
    sizes = [batch.num_rows for batch in read(storage, segment, SCHEMA, ["k", "k.v"])]
    assert sum(sizes) == rows
    assert expected * 0.9 < max(sizes) <= expected * 1.1
