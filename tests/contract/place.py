"""Servers of every kind behind one face: what the contract needs beyond the ports.

A kind has a module here (a plugin outside of the product has it in its own folder) and a line in conftest.py.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar, Self

import pytest

from replicator.model.change import ChangeBatch, Commit, Heartbeat, LogMessage, Watermark
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions, Source, SourceLog
from replicator.sources.registry import SourceKind

SECONDS = 40.0
REPLICATOR = "contract"
_numbers = itertools.count(1)


@dataclass
class Place:
    """A new namespace on a live server, a source that reads it, and a session that writes."""

    kind: ClassVar[SourceKind]
    wrong: ClassVar[Sequence[Mapping[str, Any]]]  # settings with which its check fails at the login
    many: ClassVar[int] = 60_000  # rows of a large transaction
    decodes_the_past: ClassVar[bool] = True  # False: rows from before a statement that changed their table are lost
    moves: ClassVar[bool] = True  # is an UPDATE of a key one change, and no DELETE and INSERT?
    truncates: ClassVar[bool] = True  # does the server take TRUNCATE of a table that is followed?

    config: Mapping[str, Any]
    session: Any
    name: str = field(default_factory=lambda: f"contract_{next(_numbers)}")
    tables: TableSet = field(default_factory=TableSet)
    schemas: dict[TableId, TableSchema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source: Source = self.kind.open(self.config)
        self.log: SourceLog = self.source.log(REPLICATOR)
        self.create()

    @classmethod
    def opened(cls, request: pytest.FixtureRequest) -> Self:
        """On the test run's server of this kind."""
        raise NotImplementedError

    @classmethod
    def live(cls, settings: Mapping[str, Any]) -> Self:
        """On a real server with these settings of a connection."""
        raise NotImplementedError

    def create(self) -> None:
        """The namespace."""
        self.run(f"CREATE SCHEMA {self.name}")

    def drop(self) -> None:
        """The namespace, with all that is in it."""
        self.run(f"DROP SCHEMA IF EXISTS {self.name}")

    def run(self, *statements: str) -> None:
        """One transaction.  `@` stands for the namespace."""
        with self.session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.replace("@", self.name))
        self.session.commit()

    def undo(self, *statements: str) -> None:
        with self.session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement.replace("@", self.name))
        self.session.rollback()

    def rename(self, old: str, new: str) -> None:
        """The table."""
        self.run(f"ALTER TABLE @.{old} RENAME TO {new}")

    def rename_column(self, table: str, old: str, new: str) -> None:
        """Of the table."""
        self.run(f"ALTER TABLE @.{table} RENAME COLUMN {old} TO {new}")

    def keyless(self, name: str) -> None:
        """A table with one column, whose log has whole rows."""
        self.run(f"CREATE TABLE @.{name} (v int)")

    def table(self, name: str) -> TableId:
        return TableId(self.name, name)

    def day(self, text: str) -> Any:
        """What a DATE of that day is to the source."""
        return date.fromisoformat(text)

    def described(self, *names: str) -> dict[TableId, TableSchema]:
        found = self.source.catalog().describe([self.table(name) for name in names])
        return {table: schema for table, schema in found.items() if isinstance(schema, TableSchema)}

    def follow(self, *names: str) -> Offset:
        """The log from here on."""
        self.tables = TableSet(tables=frozenset(self.table(name) for name in names))
        start = self.log.prepare(self.tables, first=True).offset
        self.schemas = self.described(*names)
        return start

    def mark(self) -> str:
        token = f"mark-{next(_numbers)}"
        reader = self.source.snapshot_reader(REPLICATOR, ReadOptions())
        reader.mark(token)
        reader.close()
        return token

    def read(self, start: Offset) -> list[LogMessage]:
        """All messages after `start`, up to the commit that carries a mark that is written now."""
        end, found = self.mark(), list[LogMessage]()
        for message in self.messages(start):
            if not isinstance(message, Heartbeat):
                found.append(message)
            if isinstance(message, Commit) and any(isinstance(m, Watermark) and m.token == end for m in found):
                break
        return found

    def messages(self, start: Offset) -> Iterator[LogMessage]:
        """For ever; fails after SECONDS."""
        reader, deadline = self.source.log_reader(REPLICATOR, ReadOptions()), time.monotonic() + SECONDS
        try:
            for message in reader.read(start, self.tables, self.schemas):
                assert time.monotonic() < deadline, "the log does not show what it should"
                yield message
        finally:
            reader.close()

    def abandon(self) -> None:
        """What the session has open."""
        self.session.rollback()

    def close(self) -> None:
        self.abandon()
        self.log.remove()
        self.drop()
        self.source.close()
        self.session.close()


def changes(messages: list[LogMessage], *columns: str) -> list[tuple[Any, ...]]:
    """(operation, columns…) in the order of their ordinals."""
    rows = [row for m in messages if isinstance(m, ChangeBatch) for row in m.data.to_pylist()]
    rows.sort(key=lambda row: row["_sequence_num"])
    return [(row["_operation"], *(row.get(column) for column in columns)) for row in rows]
