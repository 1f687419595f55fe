"""XA transactions: their rows are in the log when they are prepared, and count when XA COMMIT is, which may be days
later or never.

Reading and checkpoints go on meanwhile: an offset names those that are undecided, and where they begin.  Their rows
wait as raw events; who resumes at such an offset reads them again from there.  Where they are too large for that, the
log has them no more, or their tables were altered meanwhile, these are read again when they are committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from replicator.model.change import Notice
from replicator.model.identifiers import TableId
from replicator.model.table_set import NameRule, TableSet
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.offset import PreparedXa
from replicator.sources.mysql.rows.table_map import table_id, table_name
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent

_TOLD_AFTER = 5.0  # seconds: those that are decided in time are nothing to tell
_MAX_TABLES = 100  # of one transaction that an offset names
_ALTERING = (
    parser.AlterTable,
    parser.DropTables,
    parser.RenameTables,
    parser.TruncateTable,
    parser.CreateDatabase,
    parser.DropDatabase,
)


class Decided(NamedTuple):
    """What a transaction comes to: these events, or else that tables are read again (None: all that it may have
    changed).
    """

    events: list[BinlogEvent]
    again: Iterable[TableId] | None = ()


@dataclass
class _Recording:
    file: str
    start: int
    at: int
    events: list[BinlogEvent] | None = field(default_factory=list)
    tables: set[TableId] = field(default_factory=set)
    wanted: dict[int, bool] = field(default_factory=dict)

    @property
    def names(self) -> tuple[TableId, ...] | None:
        return tuple(sorted(self.tables)) if len(self.tables) <= _MAX_TABLES else None


@dataclass
class _Waiting:
    """`events` None: too many, or not to be had any more."""

    what: PreparedXa
    events: list[BinlogEvent] | None
    reported: bool = False


class PreparedTransactions:
    """Those between XA PREPARE and XA COMMIT or ROLLBACK."""

    def __init__(self, tables: TableSet, names: NameRule, limit: int, known: Iterable[PreparedXa]) -> None:
        """`tables` have their names under `names`.

        `limit` in bytes, for all that wait (invariant 9); `known`: what was undecided where reading begins.
        """
        self.prepared = tuple(known)
        self._tables, self._names, self._limit, self._bytes = tables, names, limit, 0
        self._recording: _Recording | None = None
        self._waiting = {one.xid: _Waiting(one, None) for one in self.prepared}

    @property
    def recording(self) -> bool:
        """True while rows events are kept back."""
        return self._recording is not None

    def start(self, file: str, start: int, at: int) -> None:
        """What follows is kept back until XA PREPARE; it begins with the event there, `at` this time in seconds."""
        self._recording = _Recording(file, start, at)

    def record(self, event: BinlogEvent) -> None:
        """A TABLE_MAP or rows event of the XA transaction; of tables that are not wanted only the names are."""
        one, number = self._recording, table_id(event.body)
        assert one is not None
        if event.type == e.TABLE_MAP:
            table = self._names.table(table_name(event.body))
            one.tables.add(table)
            one.wanted[number] = table in self._tables
        if not one.wanted.get(number) or one.events is None:
            return
        one.events.append(event)
        self._bytes += len(event.body)
        if self._bytes > self._limit:
            self.let_go()

    def let_go(self) -> None:
        """The rows of the transaction under way are too many, or some of them are taken back: its tables are read
        again.
        """
        if self._recording is not None:
            self._forget(self._recording.events)
            self._recording.events = None

    def prepare(self, xid: str, *, keep: bool) -> Decided:
        """XA PREPARE; `keep` False: it is the end already (one phase)."""
        one, self._recording = self._recording, None
        if one is None:
            return Decided([])
        if keep:
            what = PreparedXa(xid, one.file, one.start, one.at, one.names)
            self._put(_Waiting(what, one.events))
            return Decided([])
        return self._decided(one.events, one.names)

    def recall(self, what: PreparedXa, events: Iterator[BinlogEvent]) -> None:
        """The rows of one that was prepared before reading began; `events` are the log's from its beginning on."""
        self.start(what.file, what.start, what.at)
        for event in events:
            if event.type == e.TABLE_MAP or event.type in e.ROWS:
                self.record(event)
            elif event.type == e.XA_PREPARE:
                if e.parse_xa_prepare(event)[1] == what.xid:
                    assert self._recording is not None
                    self._put(_Waiting(what, self._recording.events))
                    self._recording = None
                    return
                break
            elif event.type in (e.QUERY, e.QUERY_COMPRESSED) and e.parse_query(event).sql.startswith(b"ROLLBACK TO"):
                break
        self.abandon()

    def commit(self, xid: str) -> Decided:
        """XA COMMIT.

        What a transaction changed is unknown if it was prepared before the log was first read: all tables are then
        resnapshotted.
        """
        one = self._pop(xid)
        return Decided([], None) if one is None else self._decided(one.events, one.what.tables)

    def rollback(self, xid: str) -> None:
        """XA ROLLBACK."""
        one = self._pop(xid)
        self._forget(one.events if one else None)

    def abandon(self) -> None:
        """The transaction under way never ended."""
        if self._recording is not None:
            self._forget(self._recording.events)
            self._recording = None

    def altered(self, statement: parser.Statement) -> None:
        """DDL of a table that one of them has changed: its rows are of another table by then, or of none, and the table
        is read again.

        Early MySQL 8.0 keeps no lock for one whose session is gone.
        """
        for one in list(self._waiting.values()):
            names = set(one.what.tables or ())
            if not (isinstance(statement, _ALTERING) if one.what.tables is None else _touches(statement, names)):
                continue
            if isinstance(statement, parser.RenameTables):
                for old, new in statement.pairs:
                    names |= {new} if old in names else set()
            elif isinstance(statement, parser.AlterTable):
                names |= {clause.table for clause in statement.clauses if clause.table}
            tables = None if one.what.tables is None else tuple(sorted(names))
            self._forget(one.events)
            # From where the log is not read again.
            self._waiting[one.what.xid] = _Waiting(one.what._replace(start=e.WRAP, tables=tables), None, one.reported)
        self.prepared = tuple(waiting.what for waiting in self._waiting.values())

    def wanted(self, what: PreparedXa) -> bool:
        """May it have changed a table that is wanted?"""
        return what.tables is None or any(table in self._tables for table in what.tables)

    def notices(self) -> Iterator[Notice]:
        """Once of each that is undecided for some time."""
        for one in self._waiting.values():
            if not one.reported and self.wanted(one.what) and time.time() - one.what.at > _TOLD_AFTER:
                one.reported = True
                yield Notice(_sentence(one.what, self._tables))

    def _decided(self, events: list[BinlogEvent] | None, tables: tuple[TableId, ...] | None) -> Decided:
        self._forget(events)
        return Decided([], tables) if events is None else Decided(events)

    def _put(self, one: _Waiting) -> None:
        self.rollback(one.what.xid)  # a server that crashed may give the name again
        self._waiting[one.what.xid] = one
        self.prepared = tuple(waiting.what for waiting in self._waiting.values())

    def _pop(self, xid: str) -> _Waiting | None:
        self.abandon()
        one = self._waiting.pop(xid, None)
        self.prepared = tuple(waiting.what for waiting in self._waiting.values())
        return one

    def _forget(self, events: list[BinlogEvent] | None) -> None:
        self._bytes -= sum(len(event.body) for event in events or ())


def _touches(statement: parser.Statement, tables: AbstractSet[TableId]) -> bool:
    match statement:
        case parser.CreateTable(table) | parser.TruncateTable(table):
            return table in tables
        case parser.AlterTable(table, clauses):
            return table in tables or any(clause.table in tables for clause in clauses)
        case parser.DropTables(dropped) | parser.Unparsable(_, dropped):
            return not tables.isdisjoint(dropped)
        case parser.RenameTables(pairs):
            return any(name in tables for pair in pairs for name in pair)
        case parser.CreateDatabase(name) | parser.DropDatabase(name):
            return any(table.database == name for table in tables)
    return False


def _sentence(what: PreparedXa, tables: TableSet) -> str:
    changed = ", ".join(str(table) for table in what.tables or () if table in tables) or "tables"
    return (
        f"The XA transaction {what.xid} on the source has been prepared since"
        f" {datetime.fromtimestamp(what.at, UTC):%Y-%m-%d %H:%M:%S} UTC and is not decided: what it changes in"
        f" {changed} is not in the copy, as it is not in the source. XA COMMIT {what.xid} or XA ROLLBACK {what.xid}"
        " ends it."
    )
