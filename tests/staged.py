"""Segments by hand: changes as capture's writer stages them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind

Row = tuple[Any, ...]
TS = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def schema_of(columns: Mapping[str, str], key: Sequence[str] = (), table: TableId | None = None) -> TableSchema:
    made = tuple(Column(name, DataType.parse(kind), name not in key, kind) for name, kind in columns.items())
    return TableSchema(table or TableId("shop", "t"), made, tuple(key))


@dataclass(frozen=True)
class Change:
    seq: int
    op: str
    before: Row | None
    row: Row | None
    at: dt.datetime = TS


def insert(seq: int, *row: Any) -> Change:
    return Change(seq, "INSERT", None, row)


def read(seq: int, *row: Any) -> Change:
    return Change(seq, "READ", None, row)


def update(seq: int, before: Row, row: Row) -> Change:
    return Change(seq, "UPDATE", before, row)


def delete(seq: int, *row: Any) -> Change:
    return Change(seq, "DELETE", row, row)


def segment(storage: Storage, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
    """A staged file."""
    listed = list(changes)
    nothing = (None,) * len(schema.columns)
    columns: list[list[Any]] = [
        [c.seq for c in listed],
        [c.op for c in listed],
        [None if c.op == "READ" else c.at for c in listed],
        [None for _ in listed],
        [None for _ in listed],
    ]
    columns += [[(c.row or nothing)[i] for c in listed] for i in range(len(schema.columns))]
    columns += [[(c.before or nothing)[i] for c in listed] for i in range(len(schema.columns))]
    arrow = schema.change_arrow
    assert arrow.names[-1].startswith(BEFORE)
    batch = pa.table([pa.array(v, f.type) for v, f in zip(columns, arrow, strict=True)], schema=arrow)
    return stage(storage, schema, batch, version)


def stage(storage: Storage, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
    """As capture's writer writes it."""
    path = f"r1/{uuid.uuid4().hex}.parquet"
    file = SegmentFile(storage, path, data.schema, schema.key)
    file.write(data.to_batches())
    file.close()
    make_durable(storage, [file])
    ops = Counter(data.column("_operation").to_pylist())
    seqs = data.column("_sequence_num").to_pylist()
    kind = SegmentKind.CHUNK if set(ops) == {"READ"} else SegmentKind.LOG
    return Segment(
        schema.table, kind, version, min(seqs), max(seqs), path, data.num_rows, file.size,
        ops["INSERT"], ops["UPDATE"], ops["DELETE"], ops["READ"], TS, TS, journaled_at=TS,
    )  # fmt: skip
