"""Spanner's names, types and definitions, each one an operation that no transaction has part in."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

from replicator.errors import UnsupportedDdl
from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import DataType
from replicator.targets.base import TargetTable
from replicator.targets.identifiers import digest
from replicator.targets.spanner import names
from replicator.targets.spanner.config import SpannerDestination
from replicator.targets.spanner.names import POSITIONS, quoted, spanner_type
from replicator.targets.warehouse.dialect import Columns, Definitions, Session
from replicator.targets.warehouse.position import OpenTable
from replicator.targets.warehouse.stepwise import MARKED

if TYPE_CHECKING:
    from replicator.targets.spanner.connection import SpannerSession


def of(session: Session) -> SpannerSession:
    """As what it is."""
    return cast("SpannerSession", session)


class SpannerDialect(Definitions):
    """See `Definitions`."""

    title = "Spanner"
    stepwise = True

    def __init__(self, destination: SpannerDestination) -> None:
        self.destination = destination

    def connect(self) -> Session:
        from replicator.targets.spanner.connection import SpannerSession  # noqa: PLC0415 - the client is loaded here

        return cast("Session", SpannerSession(self.destination))

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, value: str | int | datetime | None) -> str:
        """Numbers only: texts go as parameters."""
        assert isinstance(value, int)
        return str(value)

    def type_name(self, kind: DataType) -> str:
        return spanner_type(kind)

    def refused_column(self, name: str) -> str:
        """Any name has one that Spanner takes."""
        del name
        return ""

    def check_columns(self, names_: Iterable[str], table: str) -> None:
        names.check_columns(names_, table)

    def catalog_name(self, name: str) -> str:
        return names.column_name(name)

    def place(self, table: TargetTable) -> str:
        return f"`{table.namespace}`.`{table.name}`"

    def positions(self, table: TargetTable) -> TargetTable:
        """Rows do not conflict."""
        return TargetTable(table.namespace, POSITIONS)

    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        """Under the names that Spanner has them by."""
        found = of(session).query(
            "SELECT column_name, spanner_type FROM information_schema.columns"
            " WHERE table_schema = @namespace AND table_name = @name ORDER BY ordinal_position",
            {"namespace": table.namespace, "name": table.name},
        )
        return [(str(name), names.found_type(str(kind))) for name, kind in found] or None

    def key(self, session: Session, table: TargetTable) -> list[str]:
        """Columns of the primary key, under the names that Spanner has them by."""
        found = of(session).query(
            "SELECT column_name FROM information_schema.index_columns WHERE table_schema = @namespace"
            " AND table_name = @name AND index_type = 'PRIMARY_KEY' ORDER BY ordinal_position",
            {"namespace": table.namespace, "name": table.name},
        )
        return [str(name) for (name,) in found]

    def key_of(self, session: Session, table: OpenTable) -> list[str]:
        """The same under the columns' own names."""
        by_place = {names.column_name(name): name for name, _ in table.fields}
        return [by_place[name] for name in self.key(session, table.name)]

    def prepare(self, session: Session, table: TargetTable) -> None:
        there = of(session).query(
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = @namespace", {"namespace": table.namespace}
        )
        if not there:
            self.define(session, f"CREATE SCHEMA IF NOT EXISTS `{table.namespace}`")
        place = self.positions(table)
        if self.columns(session, place) is None:
            columns = ", ".join(f"`{name}` {spanner_type(kind)}" for name, kind in MARKED)
            self.define(session, f"CREATE TABLE IF NOT EXISTS {self.place(place)} ({columns}) PRIMARY KEY (table_name)")

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        self.define(session, self.created(table, columns, primary_key(columns, key, one=one)))

    def created(self, table: TargetTable, columns: Columns, key: Sequence[str]) -> str:
        """The statement.  Any column can be null: rows of before may lack a value."""
        if len(key) > names.MAX_KEY_COLUMNS:
            message = f"{table} has a key of {len(key)} columns; Spanner takes {names.MAX_KEY_COLUMNS}."
            raise UnsupportedDdl(message, table=str(table))
        defined = ", ".join(self.defined(name, kind) for name, kind in columns)
        return f"CREATE TABLE {self.place(table)} ({defined}) PRIMARY KEY ({self.listed(key)})"

    def drop(self, session: Session, table: TargetTable) -> None:
        self.define(session, f"DROP TABLE {self.place(table)}")

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        self.define(session, f"ALTER TABLE {self.place(table)} RENAME TO {self.place(new)}")

    def switch(self, session: Session, table: TargetTable, new: str, old: str) -> None:
        """The table becomes `old`, and `new` takes its name, in one operation."""
        there = self.columns(session, table) is not None
        renamed = [f"ALTER TABLE {self.place(table)} RENAME TO {self.place(TargetTable(table.namespace, old))}"]
        made = TargetTable(table.namespace, new)
        self.define(session, *renamed * there, f"ALTER TABLE {self.place(made)} RENAME TO {self.place(table)}")

    def add_column(self, session: Session, table: TargetTable, name: str, kind: DataType) -> None:
        self.define(session, f"ALTER TABLE {self.place(table)} ADD COLUMN {self.defined(name, kind)}")

    def drop_column(self, session: Session, table: TargetTable, name: str) -> None:
        self.define(session, f"ALTER TABLE {self.place(table)} DROP COLUMN {self.quoted(name)}")

    def drop_schema(self, session: Session, name: str) -> None:
        found = of(session).query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = @name", {"name": name}
        )
        dropped = [f"DROP TABLE {self.place(TargetTable(name, str(table)))}" for (table,) in found]
        self.define(session, *dropped, f"DROP SCHEMA IF EXISTS `{name}`")

    def define(self, session: Session, *statements: str) -> None:
        """Once for each mark; outside of one, statements that may be made twice."""
        mine = of(session)
        name = f"t{mine.mark}_{digest(' '.join(statements))}" if mine.mark else f"t{uuid.uuid4().hex}"
        mine.define(statements, name)


def primary_key(columns: Columns, key: Sequence[str], *, one: bool) -> list[str]:
    """That of the source; of the versions of a row, and where there is none, the number tells rows apart.

    Of a changelog, one number may have two rows: a DELETE and what came instead.
    """
    if any(name == OPERATION for name, _ in columns):  # no column of a source has this name
        return [SEQUENCE, OPERATION]
    return [*key, *[SEQUENCE] * (not one or not key)]
