"""Postgres as a dialect: definitions take part in transactions, and staging tables are the session's own."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, SupportsInt, cast

import pyarrow as pa

from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import DataType, Kind, decimal
from replicator.sources.postgres.connection import literal, quoted
from replicator.targets.base import TargetTable
from replicator.targets.postgres.config import PostgresDestination
from replicator.targets.postgres.names import NAMES, TEXT, postgres_type, refused_column
from replicator.targets.warehouse.dialect import DELETE, Columns, Dialect, Session
from replicator.targets.warehouse.position import FIELDS

if TYPE_CHECKING:
    from replicator.targets.postgres.connection import PostgresSession

STAGE, INDEX = "_tidemark_stage_", "tidemark_key_"
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_KINDS = {name: DataType(kind) for kind, name in NAMES.items()}
_UNBOUNDED = frozenset({Kind.STRING, Kind.BINARY})  # a B-tree takes no long ones


class PostgresDialect(Dialect):
    """See `Dialect`."""

    title = "Postgres"

    def __init__(self, destination: PostgresDestination) -> None:
        self._destination = destination

    def connect(self) -> Session:
        from replicator.targets.postgres.connection import PostgresSession  # noqa: PLC0415 - psycopg2 is loaded here

        return PostgresSession(self._destination.server)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, value: str | int | datetime | None) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, datetime):
            return f"TIMESTAMP WITH TIME ZONE {literal(value.isoformat(sep=' '))}"
        return str(value) if isinstance(value, int) else literal(value)

    def type_name(self, kind: DataType) -> str:
        return postgres_type(kind)

    def refused_column(self, name: str) -> str:
        return refused_column(name)

    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        found = session.query(
            "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a"
            f" WHERE a.attrelid = {self._relation(table)} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        return [(str(name), _kind(str(text))) for name, text in found] or None

    def _relation(self, table: TargetTable) -> str:
        return f"pg_catalog.to_regclass({literal(self.place(table))})"

    def prepare(self, session: Session, table: TargetTable) -> None:
        """Only one worker at a time makes what is missing: two CREATE … IF NOT EXISTS would meet in the catalog."""
        namespace, positions = table.namespace, self.positions(table)
        if self.columns(session, positions) is not None:
            return
        number = int.from_bytes(blake2b(f"tidemark {namespace}".encode(), digest_size=8).digest(), signed=True)
        fields = ", ".join(f"{self.defined(name, kind)} NOT NULL" for name, kind in FIELDS)
        with session.transaction():
            session.query(f"SELECT pg_catalog.pg_advisory_xact_lock({number})")
            if not session.query(f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {literal(namespace)}"):
                session.execute(f"CREATE SCHEMA {quoted(namespace)}")
            if self.columns(session, positions) is None:
                session.execute(
                    f"CREATE TABLE {self.place(positions)} ({fields}, PRIMARY KEY (table_name)) WITH (fillfactor = 50)"
                )

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        own = self._destination.enforced and one and bool(key)
        defined = [self.defined(name, kind) for name, kind in columns]
        defined += [f"PRIMARY KEY ({self.listed(key)})"] if own else []
        session.execute(f"CREATE TABLE {self.place(table)} ({', '.join(defined)})")
        if key and not own:
            self._index(session, table, key)

    def _index(self, session: Session, table: TargetTable, key: Sequence[str]) -> None:
        """Create a B-tree; if a key column has unbounded length, create a hash of that column only."""
        kinds = dict(self.columns(session, table) or ())
        long = [name for name in key if (kind := kinds[name]) is None or kind.kind in _UNBOUNDED]
        how = f"USING hash ({quoted(long[0])})" if long else f"({self.listed(key)})"
        session.execute(f"CREATE INDEX {INDEX}{uuid.uuid4().hex[:16]} ON {self.place(table)} {how}")

    def keyed(self, session: Session, table: TargetTable, key: Sequence[str]) -> None:
        """After another key, rows of before may not be unique under it until they have been read again."""
        found = session.query(
            "SELECT c.relname::text, i.indisprimary, (SELECT pg_catalog.array_agg(a.attname::text ORDER BY a.attnum)"
            " FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey))"
            " FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
            f" WHERE i.indrelid = {self._relation(table)} AND (i.indisprimary OR c.relname LIKE '{INDEX}%')"
        )
        kept = False
        for name, primary, columns in found:
            if set(columns) == set(key) or (not primary and set(columns) <= set(key)):
                kept = True
                continue
            alter = f"ALTER TABLE {self.place(table)}"
            if primary:
                session.execute(f"{alter} DROP CONSTRAINT {quoted(name)}")
            else:
                session.execute(f"DROP INDEX {quoted(table.namespace)}.{quoted(name)}")
        for name in self._required(session, table):
            if name not in key:
                session.execute(f"ALTER TABLE {self.place(table)} ALTER COLUMN {quoted(name)} DROP NOT NULL")
        if key and not kept:
            self._index(session, table, key)

    def _required(self, session: Session, table: TargetTable) -> list[str]:
        found = session.query(
            f"SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = {self._relation(table)}"
            " AND attnum > 0 AND NOT attisdropped AND attnotnull"
        )
        return [str(name) for (name,) in found]

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        """Its new schema may have a table of the old name."""
        place, between = self.place(table), f"{STAGE}{uuid.uuid4().hex[:16]}"
        session.execute(f"ALTER TABLE {place} RENAME TO {between}")
        moving = TargetTable(table.namespace, between)
        if table.namespace != new.namespace:
            session.execute(f"ALTER TABLE {self.place(moving)} SET SCHEMA {quoted(new.namespace)}")
            moving = TargetTable(new.namespace, between)
        session.execute(f"ALTER TABLE {self.place(moving)} RENAME TO {quoted(new.name)}")

    def stage(self, session: Session, table: TargetTable, rows: pa.Table) -> str:
        stages = cast("PostgresSession", session).stages
        stage = f"pg_temp.{STAGE}{len(stages)}"
        names = [name for name in rows.column_names if name != OPERATION]
        more = f", NULL::{TEXT} AS {OPERATION}" if OPERATION in rows.column_names else ""
        session.execute(
            f"CREATE TEMPORARY TABLE {STAGE}{len(stages)} AS"
            f" SELECT {self.listed(names)}{more} FROM {self.place(table)} WITH NO DATA"
        )
        stages.append(stage)
        session.load(stage, rows, table)
        session.execute(f"ANALYZE {stage}")
        return stage

    def discard(self, session: Session) -> None:
        """What a session leaves behind that ends in any other way, the server drops."""
        stages = cast("PostgresSession", session).stages
        if stages:
            session.execute(f"DROP TABLE IF EXISTS {', '.join(stages)}")
            stages.clear()

    def carry(self, session: Session, table: TargetTable, stage: str, key: Sequence[str], names: Sequence[str]) -> None:
        values = ", ".join(f"{quoted(name)} = t.{quoted(name)}" for name in names)
        session.execute(f"UPDATE {stage} s SET {values} FROM {self.place(table)} t WHERE {self.matching(key)}")

    def delete_matching(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> tuple[int, int]:
        ((updated, deleted),) = session.query(
            f"WITH gone AS (DELETE FROM {self.place(table)} t USING {stage} s WHERE {self.matching(key)}"
            f" RETURNING s.{OPERATION} AS does) SELECT count(*) FILTER (WHERE does <> '{DELETE}'),"
            f" count(*) FILTER (WHERE does = '{DELETE}') FROM gone"
        )
        return int(updated), int(deleted)

    def delete_equal(self, session: Session, table: TargetTable, stage: str, names: Sequence[str]) -> SupportsInt:
        """A row's text tells null from an empty text and one float from another, and can be hashed."""
        text = f"ROW({self.listed(names)})::{TEXT}"
        number = f"pg_catalog.row_number() OVER (PARTITION BY {text} ORDER BY"
        place = self.place(table)
        return session.execute(
            f"WITH s AS (SELECT {text} AS row, {number} 1) AS n FROM {stage}), t AS (SELECT {SEQUENCE}, {text} AS row,"
            f" {number} {SEQUENCE}) AS n FROM {place} WHERE {text} IN (SELECT row FROM s))"
            f" DELETE FROM {place} d USING s, t WHERE s.row = t.row AND s.n = t.n AND d.{SEQUENCE} = t.{SEQUENCE}"
        )


def _kind(text: str) -> DataType | None:
    if match := _NUMERIC.fullmatch(text):
        return decimal(int(match[1]), int(match[2])) if int(match[1]) <= 38 else None  # noqa: PLR2004
    return _KINDS.get(text)
