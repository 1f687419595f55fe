"""What the tests make on the server, and how they read it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, quoted
from replicator.sources.postgres.snapshot.reader import PostgresSnapshotReader

SCHEMA = "snapshot tests"


REPLICATOR = "snapshots"


def reader_of(config: PostgresConfig, tables: TableSet | None = None, **options: Any) -> PostgresSnapshotReader:
    return PostgresSnapshotReader(config, ReadOptions(**options), REPLICATOR, tables)


def execute(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def make(connection: Connection, name: str, columns: str, rows: list[str], options: str = "") -> TableId:
    execute(connection, f"DROP TABLE IF EXISTS {quoted(name)} CASCADE")
    execute(connection, f"CREATE TABLE {quoted(name)} ({columns}) {options}")
    if "KEY" not in columns.upper():
        execute(connection, f"ALTER TABLE {quoted(name)} REPLICA IDENTITY FULL")
    if rows:
        execute(connection, f"INSERT INTO {quoted(name)} VALUES {', '.join(rows)}")
    return TableId(SCHEMA, name)


def whole(reader: PostgresSnapshotReader, table: TableId) -> pa.Table:
    chunk = reader.read_chunk(table, KeyRange())
    return pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow)


def chunks(reader: PostgresSnapshotReader, table: TableId, rows: int) -> list[pa.Table]:
    """As the engine does it: bounds first, then a chunk for each."""
    end = reader.end_key(table)
    assert end is not None
    lower, found = None, []
    while lower != end:
        upper = reader.next_bound(table, lower, end, rows)
        assert upper != lower, "planning does not move on"
        chunk = reader.read_chunk(table, KeyRange(lower, upper))
        found.append(pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow))
        lower = upper
    return found


def assert_chunks_are_the_table(reader: PostgresSnapshotReader, table: TableId, ids: list[int]) -> None:
    for rows in (1, 3, 7):
        parts = chunks(reader, table, rows)
        assert sorted(i for part in parts for i in part.column("id").to_pylist()) == ids
        assert all(part.num_rows == rows for part in parts[:-1])
        assert 1 <= parts[-1].num_rows <= rows
