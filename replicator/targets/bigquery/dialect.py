"""BigQuery as a dialect: a transaction is one script, definitions commit by themselves, no key is enforced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, SupportsInt, cast

import pyarrow as pa

from replicator.errors import TidemarkError, UnsupportedDdl
from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import BigQueryDestination
from replicator.targets.bigquery.names import (
    MAX_CLUSTERED,
    bigquery_type,
    clustered,
    found_type,
    literal,
    quoted,
    refused_column,
)
from replicator.targets.warehouse.dialect import DELETE, POSITIONS, Columns, Dialect, Session

if TYPE_CHECKING:
    from datetime import datetime

    from replicator.targets.bigquery.connection import BigQuerySession

COPIED_FROM = "tidemark_copied_from"  # a label of a table that is being moved into another dataset
_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})


class BigQueryDialect(Dialect):
    """See `Dialect`."""

    title = "BigQuery"
    stepwise = True

    def __init__(self, destination: BigQueryDestination) -> None:
        self._destination = destination
        self._lock = threading.Lock()
        self._login: Any = None
        self._datasets: set[str] = set()  # that were seen

    def connect(self) -> Session:
        from replicator.targets.bigquery.connection import BigQuerySession  # noqa: PLC0415 - the client is loaded here

        with self._lock:  # one token for all sessions
            session = BigQuerySession(self._destination, self._login)
            self._login = session.login
        return session

    def require(self, session: Session, found: SupportsInt, wanted: int, error: Callable[[int], TidemarkError]) -> None:
        _own(session).require(found, wanted, error)

    @contextmanager
    def guarded(self, session: Session, condition: str) -> Iterator[None]:
        mine = _own(session)
        mine.guard = condition
        try:
            yield
        finally:
            mine.guard = ""

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, value: str | int | datetime | None) -> str:
        return literal(value)

    def type_name(self, kind: DataType) -> str:
        return bigquery_type(kind)

    def refused_column(self, name: str) -> str:
        return refused_column(name)

    def check_columns(self, names: Iterable[str], table: str) -> None:
        """BigQuery takes names that differ in case only for one."""
        names = list(names)
        super().check_columns(names, table)
        seen = {SEQUENCE: SEQUENCE}
        for name in names:
            if (other := seen.setdefault(name.lower(), name)) != name or name == SEQUENCE:
                message = f"The columns {other} and {name} of {table} are one column in BigQuery, which ignores case."
                raise UnsupportedDdl(message, table=table, remedy="Exclude one of them from the replicator.")

    def place(self, table: TargetTable) -> str:
        return f"{quoted(self._destination.project)}.{super().place(table)}"

    def positions(self, table: TargetTable) -> TargetTable:
        """Transactions conflict by tables: one for each target table."""
        name = blake2b(table.name.encode(), digest_size=8).hexdigest()
        return TargetTable(table.namespace, f"{POSITIONS}_{name}")

    # Definitions

    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        if (found := self.described(session, table)) is None:
            return None
        return [(one.name, found_type(one.field_type, one.precision, one.scale, one.mode)) for one in found.schema]

    def described(self, session: Session, table: TargetTable) -> Any:
        """The API's own description of a table, or None."""
        return _own(session).described(self._reference(table))

    def prepare(self, session: Session, table: TargetTable) -> None:
        """The account needs the right to make datasets only where one is missing."""
        if table.namespace not in self._datasets:
            _own(session).make_dataset(table.namespace)
            self._datasets.add(table.namespace)

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        del one
        _own(session).define(self._created(table, columns, self._clustered(columns, key)))

    def recreate(
        self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool
    ) -> None:
        """Readers see the one or the other; only a table that lies in another order is dropped before."""
        del one
        by, found = self._clustered(columns, key), self.described(session, table)
        made = self._created(table, columns, by)
        if found is not None and list(found.clustering_fields or ()) == by:
            made = made.replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1)
        else:
            made = f"DROP TABLE IF EXISTS {self.place(table)};\n{made}"
        _own(session).define(made)

    def _created(self, table: TargetTable, columns: Columns, by: Sequence[str]) -> str:
        defined = ", ".join(self.defined(name, kind) for name, kind in columns)
        order = f" CLUSTER BY {self.listed(by)}" if by else ""
        return f"CREATE TABLE {self.place(table)} ({defined}){order}"

    def _clustered(self, columns: Iterable[tuple[str, DataType | None]], key: Sequence[str]) -> list[str]:
        kinds = dict(columns)
        return [name for name in key if clustered(name, kinds.get(name))][:MAX_CLUSTERED]

    def drop(self, session: Session, table: TargetTable) -> None:
        _own(session).define(f"DROP TABLE IF EXISTS {self.place(table)}")

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        """A table cannot move into another dataset: it is copied, with a label that says so."""
        if table.namespace == new.namespace:
            _own(session).define(f"ALTER TABLE {self.place(table)} RENAME TO {quoted(new.name)}")
            return
        options = f"OPTIONS (labels = [('{COPIED_FROM}', '{_digest(table)}')])"
        _own(session).define(
            f"CREATE TABLE {self.place(new)} COPY {self.place(table)} {options};\nDROP TABLE {self.place(table)}"
        )

    def moved_copy(self, session: Session, table: TargetTable, new: TargetTable) -> bool:
        there, copy = self.described(session, table), self.described(session, new)
        return there is not None and copy is not None and copy.labels.get(COPIED_FROM) == _digest(table)

    def add_column(self, session: Session, table: TargetTable, name: str, kind: DataType) -> None:
        _own(session).define(f"ALTER TABLE {self.place(table)} ADD COLUMN IF NOT EXISTS {self.defined(name, kind)}")

    def drop_column(self, session: Session, table: TargetTable, name: str) -> None:
        self._free(session, table, name)
        _own(session).define(f"ALTER TABLE {self.place(table)} DROP COLUMN IF EXISTS {quoted(name)}")

    def rename_column(self, session: Session, table: TargetTable, name: str, new: str) -> None:
        self._free(session, table, name)
        _own(session).define(f"ALTER TABLE {self.place(table)} RENAME COLUMN {quoted(name)} TO {quoted(new)}")

    def widen_column(self, session: Session, table: TargetTable, name: str, kind: DataType) -> None:
        self._free(session, table, name)
        _own(session).define(
            f"ALTER TABLE {self.place(table)} ALTER COLUMN {quoted(name)} SET DATA TYPE {self.type_name(kind)}"
        )

    def keyed(self, session: Session, table: TargetTable, key: Sequence[str]) -> None:
        """New rows lie in the order of the key; BigQuery brings the others into it in the background."""
        if (found := self.described(session, table)) is None:
            return
        columns = [(one.name, found_type(one.field_type, one.precision, one.scale, one.mode)) for one in found.schema]
        by = self._clustered(columns, key)
        if list(found.clustering_fields or ()) != by:
            _own(session).cluster(found, by)

    def _free(self, session: Session, table: TargetTable, name: str) -> None:
        """A column by which rows are in order cannot be changed; `keyed` brings back what is left of the order."""
        found = self.described(session, table)
        if found is not None and name in (found.clustering_fields or ()):
            _own(session).cluster(found, [])

    def _reference(self, table: TargetTable) -> str:
        return f"{self._destination.project}.{table.namespace}.{table.name}"

    # Staging

    def stage(self, session: Session, table: TargetTable, rows: pa.Table) -> str:
        return _own(session).upload(table, rows)

    def discard(self, session: Session) -> None:
        _own(session).discard()

    # Rows

    def delete_all(self, session: Session, table: TargetTable) -> SupportsInt:
        return session.execute(f"DELETE FROM {self.place(table)} WHERE TRUE")

    def carry(self, session: Session, table: TargetTable, stage: str, key: Sequence[str], names: Sequence[str]) -> None:
        """From one row of each key: BigQuery refuses an UPDATE that meets two."""
        kinds = dict(self.columns(session, table) or ())
        values = ", ".join(f"{quoted(name)} = t.{quoted(name)}" for name in names)
        told = ", ".join(part for name in key for part in _told(quoted(name), kinds[name]))
        newest = f"ROW_NUMBER() OVER (PARTITION BY {told} ORDER BY {SEQUENCE} DESC) = 1"
        session.execute(
            f"UPDATE {stage} s SET {values} FROM (SELECT {self.listed([*key, *names])} FROM {self.place(table)}"
            f" WHERE TRUE QUALIFY {newest}) t WHERE {self.matching(key)}"
        )

    def delete_matching(
        self, session: Session, table: TargetTable, stage: str, key: Sequence[str]
    ) -> tuple[SupportsInt, SupportsInt]:
        matching = f"FROM {stage} s WHERE {self.matching(key)}"
        place = self.place(table)
        deleted = _own(session).count(
            f"SELECT COUNT(*) FROM {place} t WHERE EXISTS (SELECT 1 {matching} AND s.{OPERATION} = '{DELETE}')"
        )
        gone = session.execute(f"DELETE FROM {place} t WHERE EXISTS (SELECT 1 {matching})")
        return _Difference(gone, deleted), deleted

    def delete_equal(self, session: Session, table: TargetTable, stage: str, names: Sequence[str]) -> SupportsInt:
        """Equal rows are numbered on both sides, find each other by a digest, and are compared whole."""
        kinds = dict(self.columns(session, table) or ())
        told = [part for name in names for part in _told(quoted(name), kinds[name])]
        values = ", ".join(f"{one} AS v{number}" for number, one in enumerate(told))
        digest = f"FARM_FINGERPRINT(TO_JSON_STRING([{', '.join(f'TO_JSON_STRING({one})' for one in told)}]))"
        numbered = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(told)}"
        pairs = ((f"t.v{number}", f"s.v{number}") for number in range(len(told)))
        same = " AND ".join(f"({one} = {other} OR ({one} IS NULL AND {other} IS NULL))" for one, other in pairs)
        place = self.place(table)
        return session.execute(
            f"DELETE FROM {place} WHERE {SEQUENCE} IN (SELECT t.q FROM"
            f" (SELECT {values}, {digest} AS h, {SEQUENCE} AS q, {numbered} ORDER BY {SEQUENCE}) AS n"
            f" FROM {place}) t"
            f" JOIN (SELECT {values}, {digest} AS h, {numbered}) AS n FROM {stage}) s"
            f" ON t.h = s.h AND t.n = s.n WHERE {same})"
        )


class _Difference:
    def __init__(self, one: SupportsInt, other: SupportsInt) -> None:
        self._one, self._other = one, other

    def __int__(self) -> int:
        return int(self._one) - int(self._other)


def _told(column: str, kind: DataType | None) -> list[str]:
    """Expressions whose equality is that of the column's values: floats by their bits, every NaN one."""
    if kind is None or kind.kind not in _FLOATS:
        return [column]
    return [f"TO_JSON_STRING({column})", f"IEEE_DIVIDE(1, IF({column} = 0, {column}, 1)) < 0"]


def _digest(table: TargetTable) -> str:
    return blake2b(f"{table.namespace}.{table.name}".encode(), digest_size=8).hexdigest()


def _own(session: Session) -> BigQuerySession:
    return cast("BigQuerySession", session)
