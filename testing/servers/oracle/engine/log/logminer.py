"""DBMS_LOGMNR: which files are mined, and V$LOGMNR_CONTENTS (Utilities, "Using LogMiner to Analyze Redo Log Files")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

from testing.servers.oracle.engine.catalog import Table
from testing.servers.oracle.engine.database import Database
from testing.servers.oracle.engine.errors import OracleError, unsupported
from testing.servers.oracle.engine.log.redo import BLOCK, COMMIT, DDL, ENDLESS, ROLLBACK, START, Log, Record
from testing.servers.oracle.engine.log.statements import XML, Statements, Style, hexed
from testing.servers.oracle.wire.values import rowid_text

NEW, REMOVE = 1, 2
COMMITTED_ONLY, ONLINE, FROM_REDO, CONTINUOUS, TRACKING = 2, 16, 32, 1024, 8
NAMES = {1: "INSERT", 2: "DELETE", 3: "UPDATE", 5: "DDL", 6: "START", 7: "COMMIT", 9: "SELECT_LOB_LOCATOR",
         10: "LOB_WRITE", 11: "LOB_TRIM", 36: "ROLLBACK", 68: "XML DOC BEGIN", 70: "XML DOC WRITE", 71: "XML DOC END",
         255: "UNSUPPORTED"}  # fmt: skip
WORDS = {START: "set transaction read write", COMMIT: "commit", ROLLBACK: "rollback"}
UNSUPPORTED = 255
MOST = 4000  # bytes of SQL_REDO in a row
FILE = 7  # of every ROWID


@dataclass
class Row:
    """A row of V$LOGMNR_CONTENTS.  commit, start: its transaction's records, where known; part: SSN; goes_on: CSF."""

    record: Record
    operation: int
    commit: Record | None = None
    start: Record | None = None
    owner: str | None = None
    name: str | None = None
    redo: str | None = None
    undo: Callable[[], str | None] | None = None
    row_id: str = "AAAAAAAAAAAAAAAAAA"
    part: int = 0
    goes_on: bool = False
    status: int = 0
    info: str | None = None


class Session(Protocol):
    """What LogMiner asks of a session."""

    database: Database
    nls: dict[str, str]
    time_zone: str

    @property
    def in_pluggable(self) -> bool: ...


class LogMiner:
    """A session's."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.files: dict[str, Log] = {}
        self._range: tuple[int, int] | None = None
        self._options = 0

    def add(self, name: str, option: object) -> None:
        """ORA-01284 where it cannot be opened, 01289 where it is there already, 65040 in a pluggable database."""
        if self._session.in_pluggable:
            raise OracleError(65040)
        if option == NEW:
            self.files.clear()
            self._range = None
        elif option == REMOVE:
            if self.files.pop(name, None) is None:
                raise OracleError(1290, name)
            return
        with self._session.database.lock:
            log = self._session.database.redo.log_of(name)
        if log is None or not log.file(name).exists():
            raise OracleError(1284, name)
        if name in self.files:
            raise OracleError(1289, name)
        self.files[name] = log

    def start(self, first: int, last: int, options: int) -> None:
        """ORA-01292 without a file, ORA-01291 where files of the range are missing."""
        if options & CONTINUOUS:
            raise OracleError(44609)
        if options & (FROM_REDO | TRACKING):
            raise unsupported("a dictionary of redo logs")
        if not self.files:
            raise OracleError(1292)
        if last and last < first:
            raise OracleError(1281)
        logs = self._logs()
        if (first and first < logs[0].first) or (last and last > logs[-1].next):
            raise OracleError(1291)
        if any(
            (one.incarnation, one.sequence + 1) != (after.incarnation, after.sequence) for one, after in pairwise(logs)
        ):
            raise OracleError(1291)
        self._range, self._options = (first, last or ENDLESS), options

    def end(self) -> None:
        if self._range is None and not self.files:
            raise OracleError(1307)
        self.files.clear()
        self._range = None

    def _logs(self) -> list[Log]:
        """By sequence; ORA-00308 for one that has been deleted, ORA-01291 for one whose group was used again."""
        redo = self._session.database.redo
        for name, log in self.files.items():
            archived = str(log.archived) == name
            if not archived and log not in redo.online:
                raise OracleError(1291)
            if not log.file(name).exists():
                raise OracleError(308, name)
        found = {(one.incarnation, one.sequence): one for one in self.files.values()}
        return [found[key] for key in sorted(found)]

    def rows(self) -> Iterator[Row]:
        """ORA-01306 before START_LOGMNR."""
        if self._range is None:
            raise OracleError(1306)
        self._known: dict[int, tuple[Table | None, bool]] = {}
        self._style = Style(self._session.nls, self._session.time_zone, self._options)
        with self._session.database.lock:
            records = [one for log in self._logs() for one in log.between(*self._range)]
        if not self._options & COMMITTED_ONLY:
            for record in records:
                yield from self._of(record, record if record.operation == COMMIT else None, None)
            return
        waiting: dict[tuple[int, int, int], list[Record]] = {}
        for record in records:
            if record.operation == ROLLBACK:
                waiting.pop(record.xid, None)
            elif record.operation != COMMIT:
                waiting.setdefault(record.xid, []).append(record)
            else:
                whole = [*waiting.pop(record.xid, ()), record]
                start = whole[0] if whole[0].operation == START else None
                for one in whole:
                    yield from self._of(one, record, start)

    def _of(self, record: Record, commit: Record | None, start: Record | None) -> Iterator[Row]:
        ends = (commit, start)
        if record.operation in WORDS:
            yield Row(record, record.operation, *ends, redo=WORDS[record.operation] + self._style.end)
        elif record.operation == DDL:
            named = (record.owner or None, record.table or None)
            row = Row(record, DDL, *ends, *named, info="USER DDL (PlSql=0 RecDep=0)")
            yield from _split(row, record.text + self._style.end)
        else:
            yield from self._change(record, *ends)

    def _change(self, record: Record, commit: Record | None, start: Record | None) -> Iterator[Row]:
        if record.obj not in self._known:
            known = self._session.database.table_of(record.obj)
            supported = known is None or all(
                one.kind.known and one.kind.storage != "OBJECT-RELATIONAL" for one in known.columns
            )
            self._known[record.obj] = (known if self._options & ONLINE else None), supported
        known, supported = self._known[record.obj]
        row_id = rowid_text((record.obj, FILE, record.row >> 8, record.row & 255))
        named = (known.owner, known.name) if known else ("UNKNOWN", f"OBJ# {record.obj}")
        ends, status, info = (commit, start), 0, None
        if not supported:
            yield Row(record, UNSUPPORTED, *ends, *named, redo="Unsupported", row_id=row_id, status=2)
            return
        table, documents = known if known and known.version == record.version else None, set[str]()
        if table is None:
            status, info = 2, "Dictionary Version Mismatch" if known else "Dictionary Mismatch"
            kinds = self._session.database.kinds_of(record.obj, record.version)
            documents = {at for at in record.after if at in kinds and kinds[at].name == XML}
            before, after = (
                {at: text for at, text in hexed(kinds, cells).items() if at not in documents}
                for cells in (record.before, record.after)
            )
            record = replace(record, before=before, after=after)
        made = Statements(record, table, named, self._style, row_id, documents)
        lobs = [
            row
            for part, (operation, text) in enumerate(made.lobs(), 1)
            for row in _split(Row(record, operation, *ends, *named, row_id=row_id, part=part), text)
        ]
        if made.lobs_first:
            yield from lobs
        if redo := made.redo():
            row = Row(record, record.operation, *ends, *named, undo=made.undo, row_id=row_id, status=status, info=info)
            yield from _split(row, redo)
        if not made.lobs_first:
            yield from lobs
        for part, (operation, text, status, info) in enumerate(made.documents(), 1):
            yield from _split(Row(record, operation, *ends, *named, part=part, status=status, info=info), text)


def _split(row: Row, redo: str) -> Iterator[Row]:
    """A statement of more than 4000 bytes takes several rows: all but the last have CSF 1."""
    if len(redo) * 4 > MOST:
        rest = redo.encode()
        while len(rest) > MOST:
            piece = rest[:MOST].decode(errors="ignore")  # a character that is cut off begins the next one
            yield replace(row, redo=piece, goes_on=True)
            rest = rest[len(piece.encode()) :]
        redo = rest.decode()
    row.redo = redo
    yield row


def place(record: Record) -> str:
    """RS_ID."""
    sequence, at = record.place
    return f" 0x{sequence:06x}.{at // BLOCK + 2:08x}.{at % BLOCK + 16:04x} "
