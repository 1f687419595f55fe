"""What the footers of segments tell of the columns that UPDATEs left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from replicator.folding.footers import LeftOut, footers, left_out
from replicator.model.identifiers import TableId
from replicator.model.schema import UNCHANGED, Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.storage import Storage

COLUMNS = tuple(Column(name, DataType.parse("string"), nullable=name != "id", source_type="text") for name in "abcd")
SCHEMA = TableSchema(
    TableId("public", "t"), (*COLUMNS, Column("id", DataType.parse("int"), False, "int4")), ("id",), partial=True
)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(f"file://{tmp_path}")


def written(storage: Storage, name: str, *groups: Sequence[list[int] | None]) -> str:
    """A segment of which only `_unchanged` matters here, with these row groups."""
    arrow = SCHEMA.change_arrow
    with storage.writer(name, arrow) as writer:
        for lists in groups:
            columns = {f.name: pa.array([0 if f.name == "_sequence_num" else None] * len(lists), f.type) for f in arrow}
            columns["_operation"] = pa.array(["UPDATE"] * len(lists))
            columns[UNCHANGED] = pa.array(lists, arrow.field(UNCHANGED).type)
            writer.write_table(pa.table(list(columns.values()), schema=arrow))
    return name


def test_where_nothing_was_left_out_nothing_is_to_be_done(storage: Storage) -> None:
    paths = [written(storage, "nulls", [None, None]), written(storage, "empty", [[], None], [[]])]
    assert left_out(footers(storage, paths), SCHEMA) is None


def test_places_lie_between_the_least_and_the_greatest_of_all_row_groups(storage: Storage) -> None:
    paths = [written(storage, "x", [None, [1]], [None]), written(storage, "y", [[]], [[1, 2], [2], None])]
    assert left_out(footers(storage, paths), SCHEMA) == LeftOut((1, 2), 4)


def test_a_key_column_is_not_among_them(storage: Storage) -> None:
    assert left_out(footers(storage, [written(storage, "x", [[3, 4]])]), SCHEMA) == LeftOut((3,), 2)


def test_a_file_without_statistics_may_leave_out_anything(tmp_path: Path, storage: Storage) -> None:
    written(storage, "x", [[1]])
    table = pa.parquet.read_table(tmp_path / "x")
    pa.parquet.write_table(table, tmp_path / "silent", write_statistics=False)
    assert left_out(footers(storage, ["silent"]), SCHEMA) == LeftOut((0, 1, 2, 3), None)


def test_files_from_before_the_column_left_out_nothing(tmp_path: Path, storage: Storage) -> None:
    written(storage, "x", [[1]])
    table = pa.parquet.read_table(tmp_path / "x").drop_columns([UNCHANGED])
    pa.parquet.write_table(table, tmp_path / "old")
    assert left_out(footers(storage, ["old"]), SCHEMA) is None
