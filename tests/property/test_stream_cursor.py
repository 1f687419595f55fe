"""Random segments through the cursors: every row once in one shard, in order, for any batch limits and any checkpoint
from which a client resumes.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import BIGINT, STRING
from replicator.staging.storage import Storage
from replicator.state.journal import Segment, SegmentKind
from replicator.streams import cursor, forms
from replicator.streams.cursor import BatchLimits, read_batch
from replicator.streams.feed import LOAD, StreamEvent, StreamSegment, Stretch
from replicator.streams.position import StreamPosition, checkpoint, parse
from replicator.streams.sharding import shards_of
from tests.property.budget import examples

COLUMNS = (Column("id", BIGINT, nullable=False, source_type=""), Column("v", STRING, nullable=True, source_type=""))
SHARDS = 3


class Play:
    """A journal made up: three tables with a key, one without, in random segments of random row groups."""

    def __init__(self, seed: int, storage: Storage) -> None:
        self.random, self.storage = random.Random(seed), storage
        self.schemas = [TableSchema(TableId("shop", f"t{n}"), COLUMNS, ("id",) if n < 3 else ()) for n in range(4)]
        self.parts: list[StreamSegment] = []
        self.events: list[StreamEvent] = []
        self.told: list[
            tuple[int, str, str, Any, Any]
        ] = []  # (sequence, table, operation, row, before) as they happened
        self.sequence = 0
        for _ in range(self.random.randint(1, 5)):
            self.entry()

    def entry(self) -> None:
        rows: dict[int, list[dict[str, Any]]] = {}
        for _ in range(self.random.randint(0, 40)):
            table = self.random.randrange(4)
            if self.random.random() < 0.1:
                self.flush(rows, table)
                self.event(table)
            elif self.random.random() < 0.1 and table < 3:
                self.flush(rows, table)
                self.bare(table)
            else:
                rows.setdefault(table, []).append(self.change(table))
                self.sequence += self.random.choice([1, 1, 1, 7])
        for table in list(rows):
            self.flush(rows, table)

    def change(self, table: int) -> dict[str, Any]:
        key, value = self.random.randrange(30), f"v{self.sequence}"
        operation = self.random.choice(["INSERT", "UPDATE", "UPDATE", "DELETE"])
        row = {"_sequence_num": self.sequence, "_operation": operation, "id": key, "v": value}
        if operation != "INSERT":
            old = key if self.random.random() < 0.6 else self.random.randrange(30)
            row |= {BEFORE + "id": key if operation == "DELETE" else old, BEFORE + "v": "old"}
        if operation == "DELETE":
            row["v"] = None if table < 3 else value
        self.note(table, row)
        return row

    def note(self, table: int, row: dict[str, Any]) -> None:
        name, sequence, operation = self.schemas[table].table.name, row["_sequence_num"], row["_operation"]
        new, old = (row["id"], row["v"]), (row.get(BEFORE + "id"), row.get(BEFORE + "v"))
        if operation == "UPDATE" and (table == 3 or new[0] != old[0]):
            came_from = old if table < 3 else (None, None)
            self.told += [(sequence, name, "DELETE", None, old), (sequence, name, "INSERT", new, came_from)]
        elif operation in {"INSERT", "READ"}:
            self.told.append((sequence, name, operation, new, (None, None)))
        else:
            self.told.append((sequence, name, operation, None if operation == "DELETE" else new, old))

    def flush(self, rows: dict[int, list[dict[str, Any]]], table: int) -> None:
        if found := rows.pop(table, None):
            data = pa.Table.from_pylist(found, schema=self.schemas[table].change_arrow)
            span = (found[0]["_sequence_num"], found[-1]["_sequence_num"])
            self.stage(
                table, data, Segment(TableId("", ""), SegmentKind.LOG, 1, *span, path="", rows=len(found), size=1)
            )

    def bare(self, table: int) -> None:
        count, first = self.random.randint(1, 9), self.sequence
        gone = tuple(sorted(self.random.sample(range(count), self.random.randint(0, count - 1))))
        rows = [{"id": self.random.randrange(30), "v": f"read{first + n}"} for n in range(count)]
        for place, row in enumerate(rows):
            if place not in gone:
                self.note(table, {"_sequence_num": first + place, "_operation": "READ", **row})
        data = pa.Table.from_pylist(rows, schema=self.schemas[table].row_arrow)
        kind = Segment(
            TableId("", ""), SegmentKind.CHUNK, 1, first, first + count - 1, "", count - len(gone), 1, bare=True
        )
        self.stage(table, data, replace(kind, without=gone))
        self.sequence += count

    def stage(self, table: int, data: pa.Table, segment: Segment) -> None:
        path, size = f"{len(self.parts)}.parquet", self.random.randint(1, 6)
        with self.storage.writer(path, data.schema, use_dictionary=False) as writer:
            writer.write_table(data, row_group_size=size)
        self.parts.append(StreamSegment(table, replace(segment, path=path), self.schemas[table]))

    def event(self, table: int) -> None:
        name, kind = self.schemas[table].table.name, self.random.choice(["ALTER_TABLE", "TRUNCATE_TABLE", LOAD])
        self.events.append(StreamEvent(table, "shop", name, self.sequence, kind, 1))
        self.sequence += kind != LOAD  # which has the number of the next change

    def stretch(self) -> Stretch:
        parts = list(self.parts)
        self.random.shuffle(parts)
        return Stretch(tuple(parts), tuple(self.events), self.sequence)

    def events_told(self) -> list[StreamEvent]:
        """Without a LOAD at the end: it comes with the change whose number it has."""
        return [event for event in self.events if event.sequence < self.sequence]

    def expected(self, shard: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for place, (sequence, name, operation, row, before) in enumerate(self.told):
            key = (row or before)[0]
            at = 0 if name == "t3" else int(shards_of([pa.array([key], pa.int64())], SHARDS, 1)[0])
            if at == shard:
                found.append((sequence, 1, place, name, operation, row, before))
        found += [(e.sequence, int(e.kind != LOAD), 0, e.name, e.kind) for e in self.events_told()]
        return [(one[0], *one[3:]) for one in sorted(found, key=lambda one: one[:3])]


def seen(batch: cursor.CursorBatch) -> list[tuple[Any, ...]]:
    """What a client of the JSON form sees."""
    found = []
    for one in forms.as_json(batch):
        if "key" not in one:
            found.append((one["sequence"], one["table"], one["operation"]))
            continue
        after, before = one.get("after"), one.get("before") or {"id": None, "v": None}
        row = after and (after["id"], after["v"])
        found.append((one["sequence"], one["table"], one["operation"], row, (before["id"], before["v"])))
    return found


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replicator.staging.reader.MIN_ROWS", 3)
    monkeypatch.setattr("replicator.staging.reader.MAX_ROWS", 3)


@pytest.mark.parametrize("seed", range(examples(16)))
def test_every_row_comes_once_in_one_shard_in_order_whatever_the_bounds(
    seed: int, tmp_path: Path, few_rows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = Play(seed, Storage(tmp_path.as_uri()))
    monkeypatch.setattr(cursor, "SCAN_BYTES", play.random.choice([1, 500, 10**9]))
    for shard in range(SHARDS):
        position, found, rounds = StreamPosition(0), [], 0
        while True:
            limits = BatchLimits(play.random.choice([1, 2, 5, 1000]), play.random.choice([1, 300, 10**9]))
            start = parse(checkpoint("s", shard, position), "s", shard)
            batch = read_batch(play.storage, play.stretch(), start, shard=shard, shards=SHARDS, limits=limits)
            assert sum(rows.data.num_rows for rows in batch.rows) <= limits.rows
            assert batch.position > position or batch.position == StreamPosition(play.sequence)
            found += seen(batch)
            position, rounds = batch.position, rounds + 1
            assert rounds < 10_000
            if not batch.more:
                break
        assert found == play.expected(shard)
        assert position == StreamPosition(play.sequence)


@pytest.mark.parametrize("seed", range(examples(10)))
def test_arrow_streams_have_the_same_rows_as_json(seed: int, tmp_path: Path, few_rows: None) -> None:
    play = Play(seed, Storage(tmp_path.as_uri()))
    batch = read_batch(
        play.storage, play.stretch(), StreamPosition(0), shard=0, shards=1, limits=BatchLimits(10**6, 10**9)
    )
    source, found, events = pa.BufferReader(forms.as_arrow(batch)), [], []
    while source.tell() < source.size():
        with pa.ipc.open_stream(source) as stream:
            metadata, data = stream.schema.metadata, stream.read_all()
        if b"tidemark.event" in metadata:
            events.append(metadata)
            continue
        found += zip(*(data.column(name).to_pylist() for name in ("_sequence_num", "_operation", "id")), strict=True)
    told = [one for one in forms.as_json(batch) if "key" in one]
    same = [(one["sequence"], one["operation"], (one.get("after") or one["before"])["id"]) for one in told]
    assert sorted(found) == sorted(same)
    assert len(events) == len(play.events_told())


def test_the_snapshot_of_a_table_without_key_comes_before_the_changes_that_it_does_not_show(tmp_path: Path) -> None:
    storage, schema = Storage(tmp_path.as_uri()), TableSchema(TableId("shop", "log"), COLUMNS)
    changes = [{"_sequence_num": n, "_operation": "INSERT", "id": n, "v": "log"} for n in range(5, 15)]
    chunk = pa.Table.from_pylist([{"id": n, "v": "read"} for n in range(4)], schema=schema.row_arrow)
    for path, data in (("log", pa.Table.from_pylist(changes, schema=schema.change_arrow)), ("chunk", chunk)):
        with storage.writer(path, data.schema) as writer:
            writer.write_table(data, row_group_size=3)
    log = Segment(TableId("", ""), SegmentKind.LOG, 1, 5, 14, "log", 10, 1)
    read = Segment(TableId("", ""), SegmentKind.CHUNK, 1, 20, 23, "chunk", 4, 1, bare=True)
    parts = (StreamSegment(1, log, schema, above=9), StreamSegment(1, read, schema, place=10))
    for size in itertools.chain(range(1, 12)):
        position, found, more = StreamPosition(0), [], True
        while more:
            batch = read_batch(
                storage, Stretch(parts, (), 30), position, shard=0, shards=2, limits=BatchLimits(size, 10**9)
            )
            found += [(one["operation"], one["after"]["id"]) for one in forms.as_json(batch)]
            position, more = batch.position, batch.more
        assert found == [*(("READ", n) for n in range(4)), *(("INSERT", n) for n in range(10, 15))]
    batch = read_batch(storage, Stretch(parts, (), 30), StreamPosition(0), shard=1, shards=2, limits=BatchLimits())
    assert (batch.rows, batch.position) == ((), StreamPosition(30))
