"""What a dialect says: how to connect, how names, values and types are written, and the statements of a merge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, Protocol, SupportsInt

import pyarrow as pa

from replicator.errors import TidemarkError, UnsupportedDdl
from replicator.model.evolution import EvolutionPlan
from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import DataType
from replicator.targets.base import TargetTable

POSITIONS = "_tidemark_positions"  # a table in each namespace, with a row for each table
MOVING = "_tidemark_moving_"  # a column between two names
DELETE, PUT = "DELETE", "PUT"  # values of OPERATION in a staging table
Columns = Sequence[tuple[str, DataType]]


class Session(Protocol):
    """A connection.  Not thread-safe but for `interrupt`.  Every method raises TargetError or TableError."""

    def execute(self, sql: str) -> SupportsInt:
        """Returns the number of rows that the statement puts in, changes or deletes.

        Within a transaction it may be one that is known at the transaction's end only.
        """
        ...

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        ...

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        """All rows of a result, under the columns of `schema` by their places."""
        ...

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        """Append rows to a table (its place as the dialect writes it) by their columns' names; their number.

        table: whose rows they are, for messages.

        Raises ValueDoesNotFit.
        """
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Commits at the end of the block; rolls back where it raises."""
        ...

    def usable(self) -> bool:
        """Is the connection alive, and free of a transaction?"""
        ...

    def interrupt(self) -> None:
        """End the work under way with an error; callable from any thread.  Raises nothing."""
        ...

    def close(self) -> None:
        """Raises nothing."""
        ...


class Definitions(ABC):
    """Names, types and definitions in a target; standard SQL, where it does not do it otherwise."""

    title: str  # of the product, for messages
    stepwise = False  # a definition commits immediately, together with the transaction that it is in

    @abstractmethod
    def connect(self) -> Session:
        """Raises TargetError."""

    def require(self, session: Session, found: SupportsInt, wanted: int, error: Callable[[int], TidemarkError]) -> None:
        """Require `wanted` rows of the session's last statement; otherwise raise the error and commit nothing.

        It is raised at the transaction's end at the latest.
        """
        del session
        if int(found) != wanted:
            raise error(int(found))

    def guarded(self, session: Session, condition: str) -> AbstractContextManager[None]:
        """Definitions of the block are made only while a SELECT has a row, where no lock keeps other workers out."""
        del session, condition
        return nullcontext()

    # Names, values, types

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A name as an identifier, in its case."""

    @abstractmethod
    def literal(self, value: str | int | datetime | None) -> str:
        """A value in a statement."""

    @abstractmethod
    def type_name(self, kind: DataType) -> str:
        """The type of a column."""

    def cast(self, value: str | int, kind: DataType) -> str:
        """A value of a type, in a SELECT."""
        return f"CAST({self.literal(value)} AS {self.type_name(kind)})"

    @abstractmethod
    def refused_column(self, name: str) -> str:
        """See `TargetKind`."""

    def check_columns(self, names: Iterable[str], table: str) -> None:
        """UnsupportedDdl for names that no column can have.  table: the source's."""
        for name in names:
            if why := self.refused_column(name):
                message = f"The column {name} of {table} cannot be written. {why}"
                raise UnsupportedDdl(message, table=table, remedy="Exclude the column from the replicator.")

    def catalog_name(self, name: str) -> str:
        """Of a column, as `columns` has it."""
        return name

    def place(self, table: TargetTable) -> str:
        """A table's full name."""
        return f"{self.quoted(table.namespace)}.{self.quoted(table.name)}"

    def listed(self, names: Iterable[str], alias: str = "") -> str:
        """Columns, separated by commas."""
        before = f"{alias}." if alias else ""
        return ", ".join(f"{before}{self.quoted(name)}" for name in names)

    def positions(self, table: TargetTable) -> TargetTable:
        """Which table has the position of a table: one of the namespace, where rows of one table do not conflict."""
        return TargetTable(table.namespace, POSITIONS)

    def matching(self, names: Iterable[str]) -> str:
        """The condition that rows `t` and `s` have one key."""
        return " AND ".join(f"t.{self.quoted(name)} = s.{self.quoted(name)}" for name in names)

    # Definitions

    @abstractmethod
    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        """Of a table that is there, or None.  A type that Tidemark does not make is None."""

    @abstractmethod
    def prepare(self, session: Session, table: TargetTable) -> None:
        """Make a table's namespace and position table where missing.  Idempotent, by several workers at a time."""

    def forget(self, session: Session, table: TargetTable) -> None:
        """A table has no position any more: drop what only its position needed."""
        del session, table

    @abstractmethod
    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        """Make a table that is not there.  one: of each key there is one row at most."""

    def change_columns(
        self, session: Session, table: TargetTable, plan: EvolutionPlan, gone: set[str], key: Sequence[str]
    ) -> None:
        """Make the columns those of the plan.  Columns may take each other's names.  gone: dropped first."""
        renamed = [(old, new) for old, new in plan.renamed if old not in gone]
        for name in sorted(gone):
            self.drop_column(session, table, name)
        for number, (old, _) in enumerate(renamed):
            self.rename_column(session, table, old, f"{MOVING}{number}")
        for number, (_, new) in enumerate(renamed):
            self.rename_column(session, table, f"{MOVING}{number}", new)
        for column in (*plan.added, *plan.replaced):
            self.add_column(session, table, column.name, column.type)
        for column in plan.widened:
            self.widen_column(session, table, column.name, column.type)
        self.keyed(session, table, key)

    def keyed(self, session: Session, table: TargetTable, key: Sequence[str]) -> None:
        """After columns have changed: rows can still be found by the key."""
        del session, table, key

    def recreate(
        self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool
    ) -> None:
        """Make a table in place of one that is there."""
        self.drop(session, table)
        self.create(session, table, columns, key, one=one)

    def drop(self, session: Session, table: TargetTable) -> None:
        """With its rows."""
        session.execute(f"DROP TABLE {self.place(table)}")

    @abstractmethod
    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        """To a name that is free."""

    def moved_copy(self, session: Session, table: TargetTable, new: TargetTable) -> bool:
        """Are both there, as `rename` was ended between copying the one to the other and dropping it?"""
        del session, table, new
        return False

    def add_column(self, session: Session, table: TargetTable, name: str, kind: DataType) -> None:
        """Null in all rows."""
        session.execute(f"ALTER TABLE {self.place(table)} ADD COLUMN {self.defined(name, kind)}")

    def drop_column(self, session: Session, table: TargetTable, name: str) -> None:
        """With its values."""
        session.execute(f"ALTER TABLE {self.place(table)} DROP COLUMN {self.quoted(name)}")

    def rename_column(self, session: Session, table: TargetTable, name: str, new: str) -> None:
        """To a name that is free."""
        session.execute(f"ALTER TABLE {self.place(table)} RENAME COLUMN {self.quoted(name)} TO {self.quoted(new)}")

    def widen_column(self, session: Session, table: TargetTable, name: str, kind: DataType) -> None:
        """To a type that has every value of the present one (`model.types.widens`)."""
        session.execute(
            f"ALTER TABLE {self.place(table)} ALTER COLUMN {self.quoted(name)} SET DATA TYPE {self.type_name(kind)}"
        )

    def defined(self, name: str, kind: DataType) -> str:
        """A column in a definition."""
        return f"{self.quoted(name)} {self.type_name(kind)}"

    def drop_schema(self, session: Session, name: str) -> None:
        """With all that is in it: after a test."""
        schema, _, _ = self.place(TargetTable(name, "t")).rpartition(".")
        session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    def discard(self, session: Session) -> None:
        """Drop the session's staging tables, where there are any."""
        del session


class Dialect(Definitions):
    """And the statements of a merge."""

    # Staging

    @abstractmethod
    def stage(self, session: Session, table: TargetTable, rows: pa.Table) -> str:
        """Put rows into a new staging table, whose columns are the target's (and OPERATION, a text); its place.

        No other session ever uses the table.
        """

    def reserve(self, session: Session, table: TargetTable) -> None:
        """A transaction is about to begin that stages rows, too: make what its definitions would commit."""
        del session, table

    # Rows

    def drop_older(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> None:
        """Staged rows that are not newer than the target's under their key go out of the stage."""
        session.execute(
            f"DELETE FROM {stage} s WHERE EXISTS (SELECT 1 FROM {self.place(table)} t WHERE {self.matching(key)}"
            f" AND t.{self.quoted(SEQUENCE)} >= s.{self.quoted(SEQUENCE)})"
        )

    @abstractmethod
    def carry(self, session: Session, table: TargetTable, stage: str, key: Sequence[str], names: Sequence[str]) -> None:
        """Fill columns of the stage with the values of the target's rows under the same keys."""

    def delete_all(self, session: Session, table: TargetTable) -> SupportsInt:
        """Delete all rows of the target; how many."""
        return session.execute(f"DELETE FROM {self.place(table)}")

    @abstractmethod
    def delete_matching(
        self, session: Session, table: TargetTable, stage: str, key: Sequence[str]
    ) -> tuple[SupportsInt, SupportsInt]:
        """Delete the target's rows under staged keys: how many come back with other values, and how many are gone."""

    @abstractmethod
    def delete_equal(self, session: Session, table: TargetTable, stage: str, names: Sequence[str]) -> SupportsInt:
        """Delete one row of the target for each staged one that is equal in all these columns; their number.

        Null is equal to null, floats are equal by their bits (every NaN is one).  Of equal rows any goes, as
        `_sequence_num` tells them apart.
        """

    def delete_versions(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> SupportsInt:
        """Delete the target's rows that have a staged key and its number; how many."""
        return session.execute(
            f"DELETE FROM {self.place(table)} t WHERE EXISTS"
            f" (SELECT 1 FROM {stage} s WHERE {self.matching([*key, SEQUENCE])})"
        )

    def insert(
        self, session: Session, table: TargetTable, stage: str, names: Sequence[str], *, marked: bool
    ) -> SupportsInt:
        """Put staged rows in, where `marked` only those that are not to be deleted; how many."""
        only = f" WHERE {self.quoted(OPERATION)} <> '{DELETE}'" if marked else ""
        listed = self.listed(names)
        return session.execute(f"INSERT INTO {self.place(table)} ({listed}) SELECT {listed} FROM {stage}{only}")

    def held(self, session: Session, table: TargetTable, keys: pa.Table, fields: pa.Schema) -> pa.Table:
        """The target's rows under these keys (none of them null), with these columns."""
        stage = self.stage(session, table, keys)
        return session.read(
            f"SELECT {self.listed(fields.names, 't')} FROM {self.place(table)} t WHERE EXISTS"
            f" (SELECT 1 FROM {stage} s WHERE {self.matching(keys.column_names)})",
            fields,
        )
