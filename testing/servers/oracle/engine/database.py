"""What all sessions share: the catalog, the counter of changes (SCN), the redo log, open transactions."""

from __future__ import annotations

import pickle
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from testing.servers.oracle.engine.catalog import ADMINISTRATORS, Catalog, Table, User
from testing.servers.oracle.engine.catalog import DBA as DBA_ROLE
from testing.servers.oracle.engine.errors import AnsweredErrors
from testing.servers.oracle.engine.kinds import Kind
from testing.servers.oracle.engine.log.redo import (
    COMMIT,
    DELETE,
    INSERT,
    RESETLOGS,
    ROLLBACK,
    START,
    UPDATE,
    Record,
    RedoLog,
)

FIRST_SCN = 1_000_000
SEGMENTS, SLOTS = 10, 34
NAME = "oracle_emulator"
INVERSE = {INSERT: DELETE, DELETE: INSERT, UPDATE: UPDATE}


@dataclass
class Transaction:
    """records: its changes so far, compensated ones taken out; savepoints: how many there were."""

    xid: tuple[int, int, int]
    user: str
    start_scn: int = 0
    since: float = 0.0
    records: list[Record] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)


class Database:
    """folder: of the redo log; dsn: of the Postgres server, as its superuser."""

    def __init__(self, folder: Path, dsn: str, password: str, log_size: int) -> None:
        self.folder, self._dsn = folder, dsn
        self.lock = threading.RLock()  # of the SCN, the redo log, the catalog's taking place, and commits
        self.defining = threading.Lock()  # of definitions, one at a time
        self.catalog = Catalog()
        self.redo = RedoLog(folder, log_size)
        self.transactions: dict[tuple[int, int, int], Transaction] = {}
        self.started = time.time()
        self.errors = AnsweredErrors()
        self.pluggable_open = True
        self._scn = FIRST_SCN
        self._xids = 0
        self._open(password)

    def connect(self) -> psycopg.Connection:
        """A new connection to what is behind, in autocommit."""
        return psycopg.connect(f"{self._dsn} dbname={NAME}", autocommit=True, cursor_factory=psycopg.RawCursor)

    def _open(self, password: str) -> None:
        with psycopg.connect(f"{self._dsn} dbname=postgres", autocommit=True) as server:
            if not server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (NAME,)).fetchone():
                server.execute(
                    f"CREATE DATABASE {NAME} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
                )
        with closing(self.connect()) as behind:
            behind.execute((Path(__file__).parent / "functions.sql").read_bytes())
            found = behind.execute("SELECT doc FROM ora.catalog").fetchone()
            if found:
                self.catalog = pickle.loads(found[0])  # noqa: S301 - our own
            else:
                for number, name in enumerate(ADMINISTRATORS):
                    self.catalog.users[name] = User(name, password, number, roles=frozenset({DBA_ROLE}))
                self.save(behind, self.catalog)
            self._scn = self.redo.open(self._scn)
            newest = behind.execute("SELECT coalesce(max(scn), 0) FROM ora.commits").fetchone()
            assert newest
            self._scn = max(self._scn, newest[0])
            self._recover(behind)
            if (mark := self.folder / RESETLOGS).exists():
                with self.lock:
                    self.redo.switch(self.next_scn(), reset=True)
                mark.unlink()

    def _recover(self, behind: psycopg.Connection) -> None:
        """Transactions whose end is not in the redo log: Postgres knows which of them are committed."""
        unfinished: dict[tuple[int, int, int], Transaction] = {}
        for record in self.redo.all():
            self._xids = max(self._xids, record.xid[2])
            if record.operation == START:
                unfinished[record.xid] = Transaction(record.xid, record.user, record.scn, record.at)
            elif record.operation in (COMMIT, ROLLBACK):
                unfinished.pop(record.xid, None)
            elif record.xid in unfinished and record.operation in INVERSE:
                if record.undo:
                    with suppress(IndexError):
                        unfinished[record.xid].records.pop()
                else:
                    unfinished[record.xid].records.append(record)
        for one in unfinished.values():
            name = ".".join(map(str, one.xid))
            scn = self.next_scn()
            moved = behind.execute("UPDATE ora.commits SET scn = $1 WHERE transaction = $2", (scn, name)).rowcount
            if moved:
                self.redo.append(Record(scn, time.time(), one.xid, COMMIT, one.user))
            else:
                self.compensate(one, 0)
                self.redo.append(Record(self.next_scn(), time.time(), one.xid, ROLLBACK, one.user))

    @staticmethod
    def save(behind: psycopg.Connection, catalog: Catalog) -> None:
        behind.execute(
            "INSERT INTO ora.catalog (doc) VALUES ($1) ON CONFLICT (only_one) DO UPDATE SET doc = excluded.doc",
            (pickle.dumps(catalog),),
        )

    @property
    def scn(self) -> int:
        """The current SCN: every commit at or below it is visible and in the redo log."""
        with self.lock:
            return self._scn

    def next_scn(self) -> int:
        with self.lock:
            self._scn += 1
            return self._scn

    def new_xid(self) -> tuple[int, int, int]:
        with self.lock:
            self._xids += 1
            return self._xids % SEGMENTS + 1, self._xids % SLOTS, self._xids

    def write(self, transaction: Transaction, records: list[Record]) -> None:
        """Changes of a statement, and the transaction's START before the first."""
        if not records:
            return
        with self.lock:
            now, scn = time.time(), self.next_scn()
            if transaction.xid not in self.transactions:
                transaction.start_scn, transaction.since = scn, now
                self.transactions[transaction.xid] = transaction
                self.redo.append(Record(scn, now, transaction.xid, START, transaction.user))
            for one in records:
                one.scn, one.at = scn, now
            self.redo.append(*records)
            transaction.records += records

    def compensate(self, transaction: Transaction, keep: int) -> None:
        """Write what undoes the changes beyond the first `keep`, the newest first: before they are undone, so that no
        other transaction's change of such a row stands between.
        """
        with self.lock:
            scn, now = self.next_scn(), time.time()
            made = [
                replace(
                    one, scn=scn, at=now, operation=INVERSE[one.operation], after=_undone(one), undo=True, place=(0, 0),
                    before=dict(one.after) if one.operation == UPDATE else {},
                )
                for one in reversed(transaction.records[keep:])
            ]  # fmt: skip
            if made:
                self.redo.append(*made)
            del transaction.records[keep:]

    def commit(self, behind: psycopg.Connection, transaction: Transaction | None) -> None:
        """The transaction of `behind`; its commit's SCN is in Postgres with it."""
        if transaction is None or transaction.xid not in self.transactions:
            behind.execute("COMMIT")
            return
        with self.lock:
            scn, now = self.next_scn(), time.time()
            behind.execute(
                "INSERT INTO ora.commits (xid, scn, at, transaction) VALUES (pg_current_xact_id(), $1, now(), $2)",
                (scn, ".".join(map(str, transaction.xid))),
            )
            behind.execute("COMMIT")
            self.redo.append(Record(scn, now, transaction.xid, COMMIT, transaction.user))
            del self.transactions[transaction.xid]

    def rollback(self, behind: psycopg.Connection, transaction: Transaction | None) -> None:
        if transaction is not None and transaction.xid in self.transactions:
            with self.lock:
                self.compensate(transaction, 0)
                self.redo.append(Record(self.next_scn(), time.time(), transaction.xid, ROLLBACK, transaction.user))
                del self.transactions[transaction.xid]
        behind.execute("ROLLBACK")

    def table_of(self, obj: int) -> Table | None:
        return self.catalog.of_object(obj)

    def kinds_of(self, obj: int, version: int) -> dict[str, Kind]:
        """Types of the columns that a table had then, by id."""
        return self.catalog.shapes.get((obj, version), {})


def _undone(record: Record) -> dict[str, str | None]:
    """What the row has again."""
    if record.operation == UPDATE:
        return {one: record.before.get(one) for one in record.after}
    return dict(record.before) if record.operation == DELETE else {}
