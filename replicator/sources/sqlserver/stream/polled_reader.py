"""What readers of change tables and of Change Tracking have in common: two connections, and looks at the catalog."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from replicator.errors import TableError
from replicator.model.change import Commit, LogMessage, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.sources.base import LogReader, ReadOptions
from replicator.sources.shared.table_change import TableChange
from replicator.sources.sqlserver.config import SqlServerConfig
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.ddl.table_changes import Outcome

_ASKED = 100  # tables in one query
T = TypeVar("T")


class PolledReader(LogReader):
    """A LogReader (replicator.sources.base): one connection reads, the other looks and writes."""

    def __init__(self, config: SqlServerConfig, options: ReadOptions, replicator: str) -> None:
        self._config, self._options, self._replicator = config, options, replicator
        self._control: SqlServerSession | None = None
        self._reading: SqlServerSession | None = None
        self._ordinal = 0
        self._as_of: datetime | None = None

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """Wait for the next look at the catalog, which comes soon, if rows show a schema that was not reported."""
        return known if shown == known and not shown.is_another(known) else None

    def close(self) -> None:
        """Both connections."""
        for connection in (self._reading, self._control):
            if connection is not None:
                connection.close()
        self._reading = self._control = None

    @abstractmethod
    def _offset(self) -> Offset:
        """The place of reading."""

    def _tell(self, outcomes: Iterable[Outcome]) -> Iterator[LogMessage]:
        """What a look at the catalog has shown, and a Commit where that was something."""
        told = False
        for outcome in outcomes:
            told = True
            if isinstance(outcome, TableChange):
                change = outcome.at(self._ordinal, self._offset(), self._as_of)
                self._ordinal += 1
                yield change
            else:
                yield TableFailed(_table_of(outcome), outcome, self._offset())
        if told:
            yield Commit(self._offset(), self._as_of)


def _table_of(error: TableError) -> TableId:
    database, _, name = str(error.table).partition(".")
    return TableId(database, name)


def with_rows(connection: SqlServerSession, items: Sequence[T], source: Callable[[T], str]) -> list[T]:
    """Those for which what stands behind FROM in a SELECT, `source`, has rows."""
    found: list[T] = []
    for first in range(0, len(items), _ASKED):
        some = items[first : first + _ASKED]
        sql = " UNION ALL ".join(
            f"SELECT {place} AS [place] WHERE EXISTS (SELECT 1 FROM {source(one)})" for place, one in enumerate(some)
        )
        found += [some[place] for (place,) in connection.rows(sql, connection.where)]
    return found
