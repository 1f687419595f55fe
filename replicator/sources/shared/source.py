"""A source that is one server: the connection that catalog and log status share."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from replicator.model.table_set import NameRule, TableSet
from replicator.sources.base import ReadOptions


class Closable(Protocol):
    """A connection."""

    def close(self) -> None:
        """Gives it back to the server."""


S = TypeVar("S")
C = TypeVar("C", bound=Closable)


class ServerSource(ABC, Generic[S, C]):
    """One server.  Catalog and log status share one connection, opened when first used; readers have their own.

    `tables`, where set, tells the columns that snapshots and schemas leave out, and which partitions come with their
    table; `options` how values are read, on which their types depend.
    """

    def __init__(self, config: S, tables: TableSet | None = None) -> None:
        self.config = config
        self.tables = tables
        self.options = ReadOptions()
        self._connection: C | None = None
        self._name_rule: NameRule | None = None
        self._naming = threading.Lock()

    @abstractmethod
    def _connect(self) -> C:
        """A new one."""

    @abstractmethod
    def _answers(self, connection: C) -> bool:
        """Does it still?"""

    @abstractmethod
    def _cancel(self, connection: C | None) -> None:
        """End at the server what it is busy with."""

    @abstractmethod
    def _asked_names(self) -> NameRule:
        """How the server compares names."""

    def names(self) -> NameRule:
        """As the port says; asked once, whichever threads want to know: the connection is one's at a time."""
        with self._naming:
            if self._name_rule is None:
                self._name_rule = self._asked_names()
            return self._name_rule

    def cancel(self) -> None:
        """What the shared connection is busy with."""
        self._cancel(self._connection)

    def close(self) -> None:
        """Closes the shared connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _open(self) -> C:
        if self._connection is not None and not self._answers(self._connection):
            self.close()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection
