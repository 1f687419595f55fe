"""Tables and their positions in one file: what is applied and how far is one transaction of DuckDB."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa

from replicator.errors import TargetConflict, TargetError
from replicator.faults import reach
from replicator.folding import staged_changes, unchanged_values
from replicator.folding.fold import fold
from replicator.model.evolution import plan_evolution
from replicator.model.mode import Mode
from replicator.model.schema import BEFORE, OPERATION, SEQUENCE, Column, TableSchema
from replicator.staging.reader import read
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import (
    NO_TABLE,
    Append,
    ApplyResult,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
    RowChange,
    TargetChange,
    TargetTable,
    remaining,
)
from tests.plugins.duckdb_tables.names import CAPABILITIES, IDENTIFIERS, types

POSITIONS = """CREATE TABLE IF NOT EXISTS _tidemark_positions (
    namespace VARCHAR, name VARCHAR, owner VARCHAR, applied BIGINT, loaded BIGINT, version BIGINT, load VARCHAR,
    mode VARCHAR, item VARCHAR, columns VARCHAR, PRIMARY KEY (namespace, name))"""
MEMORY = 1 << 30
Done = tuple[int, int, int]
NOTHING: Done = (0, 0, 0)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def own(name: str) -> str:
    """A column's name in SQL."""
    return quoted(IDENTIFIERS.legal(name))


def place(table: TargetTable) -> str:
    return f"{quoted(table.namespace)}.{quoted(table.name)}"


class DuckDbTarget:
    """Thread-safe: one transaction at a time."""

    capabilities = CAPABILITIES
    _lock = threading.RLock()  # of all in this process: DuckDB refuses a transaction that another one overtook

    def __init__(self, path: str, storage: Storage, replicator: str) -> None:
        self._path, self._storage, self._replicator = path, storage, replicator
        self._session: duckdb.DuckDBPyConnection | None = None

    def prepare(self) -> None:
        """See `Target`."""
        self._db()

    def _db(self) -> duckdb.DuckDBPyConnection:
        if self._session is None:
            try:
                self._session = duckdb.connect(self._path)
            except duckdb.Error as error:
                raise TargetError(f"{self._path} cannot be opened: {error}") from error
            self._session.execute("SET TimeZone = 'UTC'")
            self._session.execute(POSITIONS)
        return self._session

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._lock:
            db = self._db()
            db.execute("BEGIN")
            try:
                yield db
                reach("apply.publish.before")
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise
            reach("apply.publish.after")

    def _held(self, table: TargetTable) -> tuple[Position, TableSchema] | None:
        """TargetConflict for a table that this replicator did not make."""
        found = self._db().execute(
            "SELECT owner, applied, loaded, version, load, mode, item, columns FROM _tidemark_positions"
            " WHERE namespace = ? AND name = ?", [table.namespace, table.name]
        ).fetchone()  # fmt: skip
        there = self._db().execute(
            "SELECT 1 FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?", [table.namespace, table.name]
        ).fetchone()  # fmt: skip
        if there and (found is None or found[0] != self._replicator):
            raise TargetConflict(f"{table} was not made by this replicator.", table=str(table))
        if found is None:
            return None
        _, applied, loaded, version, load, mode, item, columns = found
        return Position(applied, loaded, version, load, Mode(mode), item), TableSchema.from_dict(json.loads(columns))

    def position(self, table: TargetTable) -> Position | None:
        """See `Target`."""
        with self._lock:
            found = self._held(table)
        return None if found is None else found[0]

    def _seen(self, table: TargetTable, seen: str | None) -> tuple[Position, TableSchema] | None:
        found = self._held(table)
        if seen is None or (found[0].load if found else NO_TABLE) == seen:
            return found
        raise TargetConflict(f"{table} was recreated or dropped by another worker.", table=str(table))

    def _required(self, table: TargetTable, seen: str | None) -> tuple[Position, TableSchema]:
        if (found := self._seen(table, seen)) is None:
            raise TargetError(f"{table} does not exist.", table=str(table))
        return found

    def apply(self, table: TargetTable, change: TargetChange, seen: str | None = None) -> ApplyResult:
        """See `Target`."""
        started = time.monotonic()
        with self._transaction() as db:
            how, counts = self._apply(db, table, change, seen)
        return ApplyResult(*counts, how, time.monotonic() - started)

    def _apply(
        self, db: duckdb.DuckDBPyConnection, table: TargetTable, change: TargetChange, seen: str | None
    ) -> tuple[str, Done]:
        match change:
            case Create():
                older = self._seen(table, seen)
                db.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.namespace)}")
                db.execute(f"DROP TABLE IF EXISTS {place(table)}")
                columns = ", ".join(definition(c) for c in change.schema.columns)
                db.execute(f"CREATE TABLE {place(table)} ({columns}, {SEQUENCE} BIGINT)")
                at = Position(change.applied, -1, change.version, change.load, change.mode)
                self._move(db, table, older[0] if older else None, at, change.schema)
                return ("recreate" if older else "create"), NOTHING
            case Drop():
                found = self._seen(table, seen)
                db.execute(f"DROP TABLE IF EXISTS {place(table)}")
                db.execute("DELETE FROM _tidemark_positions WHERE namespace = ? AND name = ?", list(key(table)))
                return ("drop" if found else "skip"), NOTHING
            case Rename():
                raise TargetError(f"{table} cannot be renamed.", table=str(table))
            case Evolve():
                at, schema = self._required(table, seen)
                if at.schema_version >= change.version:
                    return "skip", NOTHING
                kept = self._evolve(db, table, schema, change)
                after = Position(at.applied, at.loaded, change.version, at.load, at.mode, at.item)
                self._move(db, table, at, after, kept)
                return "evolve", NOTHING
            case _:
                return self._rows(db, table, change, *self._required(table, seen))

    def _rows(
        self,
        db: duckdb.DuckDBPyConnection,
        table: TargetTable,
        change: RowChange,
        at: Position,
        schema: TableSchema,
    ) -> tuple[str, Done]:
        todo = remaining(change, at, table, {one.name: one.type for one in schema.columns})
        if todo is None:
            return "skip", NOTHING
        change, after = todo
        match change:
            case Append():
                did, how = self._append(db, table, change.segments, change.schema, at.loaded), "append"
            case Merge():
                merge = self._merge if change.schema.key else self._merge_keyless
                did, how = merge(db, table, change, at.applied), "merge"
            case Replace():
                db.execute(f"DELETE FROM {place(table)}")
                did, how = self._append(db, table, change.segments, change.schema, -1), "replace"
            case DeleteBelow():
                gone = affected(db.execute(f"DELETE FROM {place(table)} WHERE {SEQUENCE} < ?", [change.below]))
                did, how = (0, 0, gone), "delete"
        self._move(db, table, at, after, schema)
        return how, did

    def _move(
        self,
        db: duckdb.DuckDBPyConnection,
        table: TargetTable,
        before: Position | None,
        after: Position,
        schema: TableSchema,
    ) -> None:
        """Compare and set: what another worker has done meanwhile stays."""
        columns = json.dumps(schema.to_dict())
        values = [after.applied, after.loaded, after.schema_version, after.load, after.mode.value, after.item, columns]
        if before is None:
            db.execute("INSERT INTO _tidemark_positions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       [*key(table), self._replicator, *values])  # fmt: skip
            return
        done = db.execute(
            "UPDATE _tidemark_positions SET applied = ?, loaded = ?, version = ?, load = ?, mode = ?, item = ?, columns"
            " = ? WHERE namespace = ? AND name = ? AND applied = ? AND loaded = ? AND load = ?",
            [*values, *key(table), before.applied, before.loaded, before.load],
        )
        if affected(done) != 1:
            raise TargetConflict(f"{table} was changed by another worker.", table=str(table))

    def _append(
        self,
        db: duckdb.DuckDBPyConnection,
        table: TargetTable,
        segments: Sequence[Segment],
        schema: TableSchema,
        above: int,
    ) -> Done:
        count = 0
        for segment in segments:
            for batch in staged_changes.rows(self._storage, segment, schema, above):
                insert(db, table, schema, pa.Table.from_batches([batch]))
                count += batch.num_rows
        return count, 0, 0

    def _merge(self, db: duckdb.DuckDBPyConnection, table: TargetTable, change: Merge, applied: int) -> Done:
        schema = change.schema
        changes = staged_changes.changes(
            self._storage, change.segments, schema, applied, MEMORY, partial=schema.partial
        )
        assert changes is not None, "too much for an exercise"
        if schema.partial and unchanged_values.places(changes):
            names = ", ".join(f"{own(name)} AS {quoted(name)}" for name in schema.names)
            held = db.execute(f"SELECT {names}, {SEQUENCE} FROM {place(table)}").to_arrow_table()
            held = held.cast(pa.schema([*schema.row_arrow, pa.field(SEQUENCE, pa.int64())]))
            changes = unchanged_values.filled(changes, held, schema, MEMORY, newest=True)
        folded = fold(changes, schema)
        keys = folded.keys.append_column("_seq", pa.array(folded.seq))
        same = " AND ".join(f"t.{own(name)} = k.{quoted(name)}" for name in schema.key)
        db.register("_keys", keys)
        gone = affected(
            db.execute(f"DELETE FROM {place(table)} t USING _keys k WHERE {same} AND t.{SEQUENCE} < k._seq")
        )
        db.register("_stays", folded.stays)
        newer = same.replace("k.", "s.")
        kept = db.execute(
            f"SELECT s.* FROM _stays s WHERE NOT EXISTS (SELECT 1 FROM {place(table)} t WHERE {newer})"
        ).to_arrow_table()  # fmt: skip
        put = insert(db, table, schema, kept)
        return max(put - gone, 0), min(put, gone), max(gone - put, 0)

    def _merge_keyless(self, db: duckdb.DuckDBPyConnection, table: TargetTable, change: Merge, applied: int) -> Done:
        """One by one: a row that goes is any of those that are equal in all columns."""
        schema = change.schema
        names = [SEQUENCE, OPERATION, *schema.names, *(BEFORE + name for name in schema.names)]
        equal = " AND ".join(f"{own(name)} IS NOT DISTINCT FROM ?" for name in schema.names)
        marks = ", ".join("?" * (len(schema.names) + 1))
        came = left = 0
        for segment in change.segments:
            for batch in read(self._storage, segment, schema, names):
                for row in batch.to_pylist():
                    if row[SEQUENCE] <= applied:
                        continue
                    if row[OPERATION] in {"UPDATE", "DELETE"}:
                        left += affected(db.execute(
                            f"DELETE FROM {place(table)} WHERE rowid = "
                            f"(SELECT min(rowid) FROM {place(table)} WHERE {equal})",
                            [row[BEFORE + name] for name in schema.names],
                        ))  # fmt: skip
                    if row[OPERATION] != "DELETE":
                        values = [row[name] for name in schema.names]
                        came += 1
                        db.execute(f"INSERT INTO {place(table)} VALUES ({marks})", [*values, row[SEQUENCE]])
        return came, 0, left

    def _evolve(
        self, db: duckdb.DuckDBPyConnection, table: TargetTable, old: TableSchema, change: Evolve
    ) -> TableSchema:
        """The columns that it has then: those of the schema, and dropped ones that stay."""
        plan = plan_evolution(old, change.schema, change.renamed)
        kept = [c for c in old.columns if c.name in plan.dropped] if change.keep_dropped else []
        alter = f"ALTER TABLE {place(table)}"
        for name in plan.dropped if not change.keep_dropped else ():
            db.execute(f"{alter} DROP COLUMN {own(name)}")
        for number, (name, _) in enumerate(plan.renamed):
            db.execute(f"{alter} RENAME COLUMN {own(name)} TO _moving_{number}")
        for number, (_, name) in enumerate(plan.renamed):
            db.execute(f"{alter} RENAME COLUMN _moving_{number} TO {own(name)}")
        for column in plan.replaced:
            db.execute(f"{alter} DROP COLUMN {own(column.name)}")
        for column in (*plan.added, *plan.replaced):
            db.execute(f"{alter} ADD COLUMN {definition(column)}")
        for column in plan.widened:
            db.execute(f"{alter} ALTER COLUMN {own(column.name)} SET DATA TYPE {types(column.type).name}")
        columns = (*change.schema.columns, *kept)
        return replace(change.schema, columns=columns)

    def maintain(self, table: TargetTable, *, busy: bool = False) -> str:
        """Nothing is to be done."""
        del table, busy
        return ""

    def interrupt(self) -> None:
        """See `Target`."""
        if self._session is not None:
            self._session.interrupt()

    def close(self) -> None:
        """See `Target`."""
        if self._session is not None:
            self._session.close()
            self._session = None


def key(table: TargetTable) -> tuple[str, str]:
    return table.namespace, table.name


def definition(column: Column) -> str:
    return f"{own(column.name)} {types(column.type).name}"


def insert(db: duckdb.DuckDBPyConnection, table: TargetTable, schema: TableSchema, rows: pa.Table) -> int:
    names = ", ".join([*(own(name) for name in schema.names), SEQUENCE])
    given = ", ".join([*(quoted(name) for name in schema.names), SEQUENCE])
    db.register("_rows", rows)
    return affected(db.execute(f"INSERT INTO {place(table)} ({names}) SELECT {given} FROM _rows"))


def affected(done: Any) -> int:
    return int(done.fetchone()[0])
