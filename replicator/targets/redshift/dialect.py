"""Redshift as a dialect: definitions take part in transactions, a position table for each table, nothing is enforced.

A DELETE names its table without an alias, nothing returns the rows that it deletes, and texts that differ in blanks at
their end only are equal: their lengths are compared, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, SupportsInt, cast

import pyarrow as pa

from replicator.model.evolution import EvolutionPlan
from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.redshift.config import RedshiftDestination
from replicator.targets.redshift.sql import STAGE, known_type, literal, quoted, redshift_type, refused_column
from replicator.targets.warehouse.dialect import DELETE, Columns, Dialect, Session
from replicator.targets.warehouse.position import FIELDS

if TYPE_CHECKING:
    from replicator.targets.redshift.aws import Aws
    from replicator.targets.redshift.connection import RedshiftSession

POSITION = "_tidemark_position_"
REBUILT = "_tidemark_rebuilt"
MAX_SORT_KEYS = 400
HASHED_COLUMNS, HASHED_CHARACTERS = 64, 64  # of a row, by which equal rows find each other
_TEXT, _FLOATS, _UNSORTED = Kind.STRING, frozenset({Kind.FLOAT, Kind.DOUBLE}), frozenset({Kind.BINARY})


class RedshiftDialect(Dialect):
    """See `Dialect`."""

    title = "Redshift"

    def __init__(self, destination: RedshiftDestination) -> None:
        self._destination = destination
        self._aws: Aws | None = None

    def connect(self) -> Session:
        from replicator.targets.redshift.aws import Aws  # noqa: PLC0415 - boto3 and the client are loaded here
        from replicator.targets.redshift.connection import RedshiftSession  # noqa: PLC0415

        self._aws = self._aws or Aws(self._destination)
        return RedshiftSession(self._destination, self._aws)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, value: str | int | datetime | None) -> str:
        return literal(value)

    def type_name(self, kind: DataType) -> str:
        return redshift_type(kind)

    def refused_column(self, name: str) -> str:
        return refused_column(name)

    # Definitions

    def positions(self, table: TargetTable) -> TargetTable:
        """Return a separate position table for each table: Redshift's transactions conflict by tables, not by rows."""
        return TargetTable(table.namespace, POSITION + sha256(table.name.encode()).hexdigest()[:24])

    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        found = session.query(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a"
            " JOIN pg_catalog.pg_class c ON c.oid = a.attrelid"
            " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {literal(table.namespace)} AND c.relname = {literal(table.name)}"
            " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        return [(str(name), known_type(str(shown))) for name, shown in found] or None

    def prepare(self, session: Session, table: TargetTable) -> None:
        positions = self.positions(table)
        if self.columns(session, positions) is not None:
            return
        if not session.query(f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {literal(table.namespace)}"):
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.namespace)}")
        fields = ", ".join(f"{self.defined(name, kind)} NOT NULL" for name, kind in FIELDS)
        session.execute(f"CREATE TABLE IF NOT EXISTS {self.place(positions)} ({fields}) DISTSTYLE ALL")

    def forget(self, session: Session, table: TargetTable) -> None:
        session.execute(f"DROP TABLE {self.place(self.positions(table))}")

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        """Rows of one key lie together, in its order.  No key is declared: Redshift would rely on it unheld."""
        del one
        defined = ", ".join(self.defined(name, kind) for name, kind in columns)
        kinds = dict(columns)
        sorted_by = [name for name in key if kinds[name].kind not in _UNSORTED][:MAX_SORT_KEYS]
        by = f" DISTKEY ({quoted(sorted_by[0])}) SORTKEY ({self.listed(sorted_by)})" if sorted_by else ""
        session.execute(f"CREATE TABLE {self.place(table)} ({defined}){by}")

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        """A table cannot move into another schema: it is copied."""
        if table.namespace == new.namespace:
            session.execute(f"ALTER TABLE {self.place(table)} RENAME TO {quoted(new.name)}")
            return
        session.execute(f"CREATE TABLE {self.place(new)} (LIKE {self.place(table)})")
        session.execute(f"INSERT INTO {self.place(new)} SELECT * FROM {self.place(table)}")
        self.drop(session, table)

    def change_columns(
        self, session: Session, table: TargetTable, plan: EvolutionPlan, gone: set[str], key: Sequence[str]
    ) -> None:
        """What is added or renamed is so in place.

        Else all is copied once: no type can be changed but a text's, and a column of the sort key cannot be dropped.
        """
        if not gone and not plan.widened:
            super().change_columns(session, table, plan, gone, key)
            return
        names, widened = dict(plan.renamed), {one.name: one.type for one in plan.widened}
        columns: list[tuple[str, DataType]] = []
        values: list[str] = []
        for name, kind in self.columns(session, table) or ():
            if name in gone or kind is None:
                continue
            new = names.get(name, name)
            columns.append((new, widened.get(new, kind)))
            values.append(f"CAST({quoted(name)} AS {redshift_type(widened[new])})" if new in widened else quoted(name))
        kept = [name for name, _ in columns]
        columns += [(one.name, one.type) for one in (*plan.added, *plan.replaced)]
        moving = TargetTable(table.namespace, f"{REBUILT}_{self.positions(table).name.removeprefix(POSITION)}")
        self.create(session, moving, columns, key, one=False)
        if kept:
            session.execute(
                f"INSERT INTO {self.place(moving)} ({self.listed(kept)})"
                f" SELECT {', '.join(values)} FROM {self.place(table)}"
            )
        self.drop(session, table)
        self.rename(session, moving, table)

    # Staging

    def stage(self, session: Session, table: TargetTable, rows: pa.Table) -> str:
        stages = cast("RedshiftSession", session).stages
        stage = f"{STAGE}{len(stages)}"
        names = [name for name in rows.column_names if name != OPERATION]
        more = f", CAST('' AS VARCHAR(16)) AS {OPERATION}" if OPERATION in rows.column_names else ""
        session.execute(
            f"CREATE TEMP TABLE {stage} AS SELECT {self.listed(names)}{more} FROM {self.place(table)} WHERE 1 = 0"
        )
        stages.append(stage)
        session.load(stage, rows, table)
        return stage

    def discard(self, session: Session) -> None:
        """What a session leaves behind that ends in any other way, Redshift drops."""
        stages = cast("RedshiftSession", session).stages
        while stages:
            session.execute(f"DROP TABLE IF EXISTS {stages[-1]}")
            stages.pop()

    # Rows

    def drop_older(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> None:
        session.execute(
            f"DELETE FROM {stage} USING {self.place(table)} t"
            f" WHERE {self._matching(session, table, key, 't', stage)} AND t.{SEQUENCE} >= {stage}.{SEQUENCE}"
        )

    def carry(self, session: Session, table: TargetTable, stage: str, key: Sequence[str], names: Sequence[str]) -> None:
        values = ", ".join(f"{quoted(name)} = t.{quoted(name)}" for name in names)
        session.execute(
            f"UPDATE {stage} SET {values} FROM {self.place(table)} t"
            f" WHERE {self._matching(session, table, key, 't', stage)}"
        )

    def delete_matching(
        self, session: Session, table: TargetTable, stage: str, key: Sequence[str]
    ) -> tuple[SupportsInt, SupportsInt]:
        """In two statements, as only their numbers of rows tell what they have deleted.

        The target has no alias, so the stage has none either: a table may be called like it.
        """
        matching = self._matching(session, table, key, quoted(table.name), stage)
        delete = f"DELETE FROM {self.place(table)} USING {stage} WHERE {matching}"
        deleted = session.execute(f"{delete} AND {stage}.{OPERATION} = '{DELETE}'")
        return session.execute(delete), deleted

    def delete_versions(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> SupportsInt:
        name = quoted(table.name)
        return session.execute(
            f"DELETE FROM {self.place(table)} USING {stage}"
            f" WHERE {self._matching(session, table, key, name, stage)} AND {name}.{SEQUENCE} = {stage}.{SEQUENCE}"
        )

    def held(self, session: Session, table: TargetTable, keys: pa.Table, fields: pa.Schema) -> pa.Table:
        stage = self.stage(session, table, keys)
        matching = self._matching(session, table, keys.column_names, "t", "s")
        return session.read(
            f"SELECT {self.listed(fields.names, 't')} FROM {self.place(table)} t JOIN {stage} s ON {matching}", fields
        )

    def delete_equal(self, session: Session, table: TargetTable, stage: str, names: Sequence[str]) -> SupportsInt:
        """Equal rows are numbered on both sides, and found by a digest of what they begin with, then compared whole."""
        kinds = self._kinds(session, table)
        values = [(name, kinds[name].kind) for name in names]
        parts = [part for name, kind in values for part in _equality(quoted(name), kind)]
        number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(parts)}"
        digest, listed = _digest(values), self.listed(names)
        same = " AND ".join(_same(quoted(name), kind) for name, kind in values)
        place = self.place(table)
        return session.execute(
            f"DELETE FROM {place} WHERE {SEQUENCE} IN (SELECT t.{SEQUENCE} FROM"
            f" (SELECT {listed}, {SEQUENCE}, {digest} AS _tidemark_digest,"
            f" {number} ORDER BY {SEQUENCE}) AS _tidemark_number FROM {place}"
            f" WHERE {digest} IN (SELECT {digest} FROM {stage})) t"
            f" JOIN (SELECT {listed}, {digest} AS _tidemark_digest, {number}) AS _tidemark_number FROM {stage}) s"
            f" ON t._tidemark_digest = s._tidemark_digest AND t._tidemark_number = s._tidemark_number AND {same})"
        )

    def _kinds(self, session: Session, table: TargetTable) -> dict[str, DataType]:
        return {name: kind for name, kind in self.columns(session, table) or () if kind is not None}

    def _matching(self, session: Session, table: TargetTable, key: Sequence[str], one: str, other: str) -> str:
        """The condition that their rows have one key."""
        kinds = self._kinds(session, table)
        columns = [(f"{one}.{quoted(name)}", f"{other}.{quoted(name)}", kinds[name].kind) for name in key]
        parts = [f"{left} = {right}" for left, right, _ in columns]
        parts += [f"OCTET_LENGTH({left}) = OCTET_LENGTH({right})" for left, right, kind in columns if kind is _TEXT]
        return " AND ".join(parts)


def _equality(column: str, kind: Kind) -> list[str]:
    """Expressions whose equality is that of the column's values, which are not null."""
    if kind is _TEXT:
        return [column, f"OCTET_LENGTH({column})"]
    return [column, f"CAST({column} AS VARCHAR(64))"] if kind in _FLOATS else [column]  # 0 and -0 differ as texts


def _same(name: str, kind: Kind) -> str:
    """The condition that rows `t` and `s` have one value, null included."""
    sides = zip(_equality(f"t.{name}", kind), _equality(f"s.{name}", kind), strict=True)
    both = " AND ".join(f"{left} = {right}" for left, right in sides)
    return f"(({both}) OR (t.{name} IS NULL AND s.{name} IS NULL))"


def _digest(values: Sequence[tuple[str, Kind]]) -> str:
    """Equal of equal rows: of what the first columns begin with, without blanks at its end."""
    texts = []
    for name, kind in values[:HASHED_COLUMNS]:
        column = quoted(name)
        match kind:
            case Kind.STRING:
                text = f"RTRIM(LEFT({column}, {HASHED_CHARACTERS}))"
            case Kind.BINARY:
                text = f"CAST(OCTET_LENGTH({column}) AS VARCHAR(16))"
            case Kind.BOOLEAN:
                text = f"CASE WHEN {column} THEN 't' ELSE 'f' END"
            case _:
                text = f"CAST({column} AS VARCHAR(64))"
        texts.append(f"COALESCE({text}, '')")
    return f"MD5({' || CHR(9) || '.join(texts)})"
