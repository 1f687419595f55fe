"""Segments by hand, and what rows they make of a table: a model that shares nothing with the targets."""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType
from replicator.staging.segment_file import SegmentFile, make_durable
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind

Row = tuple[Any, ...]
TS = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Change:
    """An UPDATE has both rows, a DELETE the old one, the others the new one."""

    seq: int
    op: str
    before: Row | None
    row: Row | None


def read(seq: int, *row: Any) -> Change:
    return Change(seq, "READ", None, row)


def insert(seq: int, *row: Any) -> Change:
    return Change(seq, "INSERT", None, row)


def update(seq: int, before: Row, row: Row) -> Change:
    return Change(seq, "UPDATE", before, row)


def delete(seq: int, *row: Any) -> Change:
    return Change(seq, "DELETE", row, None)


def schema_of(columns: Mapping[str, str], key: Sequence[str] = (), table: TableId | None = None) -> TableSchema:
    made = tuple(Column(name, DataType.parse(kind), name not in key, kind) for name, kind in columns.items())
    return TableSchema(table or TableId("shop", "t"), made, tuple(key))


def stage(storage: Storage, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
    """As capture's writer writes it."""
    listed = list(changes)
    nothing = (None,) * len(schema.columns)
    width = range(len(schema.columns))
    columns: list[list[Any]] = [
        [c.seq for c in listed],
        [c.op for c in listed],
        [None if c.op == "READ" else TS for c in listed],
        [None for _ in listed],
        [None for _ in listed],
        *([(c.row or c.before or nothing)[i] for c in listed] for i in width),
        *([(c.before or nothing)[i] for c in listed] for i in width),
    ]
    arrow = schema.change_arrow
    data = pa.table([pa.array(v, f.type) for v, f in zip(columns, arrow, strict=True)], schema=arrow)
    path = f"r1/{uuid.uuid4().hex}.parquet"
    file = SegmentFile(storage, path, data.schema, schema.key)
    file.write(data.to_batches())
    file.close()
    make_durable(storage, [file])
    ops = Counter(c.op for c in listed)
    kind = SegmentKind.CHUNK if set(ops) == {"READ"} else SegmentKind.LOG
    return Segment(
        schema.table, kind, version, listed[0].seq, listed[-1].seq, path, len(listed), file.size,
        ops["INSERT"], ops["UPDATE"], ops["DELETE"], ops["READ"], TS, TS, journaled_at=TS,
    )  # fmt: skip


class Model:
    """What the table must hold: rows, with or without key."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.rows: Counter[Row] = Counter()

    def follow(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.before is not None:
                self.rows -= Counter([change.before])
            if change.row is not None:
                self.rows += Counter([change.row])
