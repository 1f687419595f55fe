"""The dynamic performance views, and those of parameters and versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from testing.servers.oracle.engine.catalog import PLUGGABLE, ROOT
from testing.servers.oracle.engine.log.logminer import NAMES, Row, place
from testing.servers.oracle.engine.log.redo import BLOCK, GROUPS
from testing.servers.oracle.engine.session import Session
from testing.servers.oracle.engine.views.times import day
from testing.servers.oracle.wire.handshake import RELEASE

DBID, THREAD = 1_700_000_001, 1
PLUGGABLE_ID = 3  # CON_ID: 1 is the root, 2 the seed
FULL_VERSION = ".".join(map(str, RELEASE))
PARAMETERS = {
    "compatible": "19.0.0", "undo_retention": "900", "open_cursors": "300", "enable_goldengate_replication": "FALSE",
    "db_name": "ORCL", "max_string_size": "STANDARD", "cluster_database": "FALSE", "db_block_size": "8192",
}  # fmt: skip
NLS = {
    "NLS_LANGUAGE": "AMERICAN", "NLS_TERRITORY": "AMERICA", "NLS_CHARACTERSET": "AL32UTF8",
    "NLS_NCHAR_CHARACTERSET": "AL16UTF16", "NLS_RDBMS_VERSION": FULL_VERSION, "NLS_SORT": "BINARY",
    "NLS_COMP": "BINARY", "NLS_LENGTH_SEMANTICS": "BYTE", "NLS_DATE_FORMAT": "DD-MON-RR",
    "NLS_NUMERIC_CHARACTERS": ".,",
}  # fmt: skip
Rows = Iterator[Sequence[Any]]


def _nls(session: Session, prefix: str) -> Rows:
    del prefix
    return iter([*(NLS | session.nls).items()])


def _nls_of_database(session: Session, prefix: str) -> Rows:
    del prefix
    set_ = session.database.catalog.parameters
    return ((name, set_.get(name.lower(), value)) for name, value in NLS.items())


def _database(session: Session, prefix: str) -> Rows:
    del prefix
    database = session.database
    with database.lock:
        logging, scn = database.catalog.database_logging, database.scn
        first, incarnations = database.redo.logs[0], [0, *database.redo.incarnations]
    yes = {
        one: "YES" if f"{one} KEY" in logging or one in logging else "NO"
        for one in ("MIN", "PRIMARY", "UNIQUE", "FOREIGN")
    }
    implied = "IMPLICIT" if logging - {"MIN"} else "NO"
    yield (DBID, "ORCL", day(first.since), incarnations[-1], day(first.since), incarnations[-2], "ARCHIVELOG",
           database.redo.current.first, "READ WRITE", "MAXIMUM PERFORMANCE", "PRIMARY", scn, "NO",
           "YES" if "MIN" in logging else implied, yes["PRIMARY"], yes["UNIQUE"],
           "NO", yes["FOREIGN"], "YES" if "ALL COLUMN" in logging else "NO", "NO", "ORCL",
           "YES" if session.in_container_database else "NO", 0, "Linux x86 64-bit",
           "NO", day(time.time()))  # fmt: skip


def _instance(session: Session, prefix: str) -> Rows:
    del prefix
    since = day(session.database.started)
    yield (
        1,
        "orcl",
        "localhost",
        FULL_VERSION,
        FULL_VERSION,
        since,
        "OPEN",
        "NO",
        THREAD,
        "STARTED",
        "PRIMARY_INSTANCE",
        "EE",
    )


def _logs(session: Session, prefix: str) -> Rows:
    del prefix
    database = session.database
    with database.lock:
        found = [(one, one is database.redo.current) for one in database.redo.online]
        for log, current in found:
            yield (log.group, THREAD, log.sequence, database.redo.size, BLOCK, 1, "NO" if current else "YES",
                   "CURRENT" if current else "INACTIVE", log.first, day(log.since), log.next,
                   None if current else day(log.until), 0)  # fmt: skip


def _log_files(session: Session, prefix: str) -> Rows:
    del prefix
    with session.database.lock:
        return iter([(one.group, None, "ONLINE", str(one.online), "NO", 0) for one in session.database.redo.online])


def _archived(session: Session, prefix: str) -> Rows:
    del prefix
    with session.database.lock:
        logs = [one for one in session.database.redo.logs if one.archived]
    for at, log in enumerate(logs, 1):
        gone = log.gone is not None
        yield (
            at, at, None if gone else str(log.archived), 1, THREAD, log.sequence, log.incarnation, log.first,
            day(log.since),
            log.next, day(log.until), -(-log.size // BLOCK), BLOCK, "ARCH", "ARCH", "NO", "YES", "NO",
            "YES" if gone else "NO", "D" if gone else "A", day(log.until), "NO", "NO", DBID,
        )  # fmt: skip


def _threads(session: Session, prefix: str) -> Rows:
    del prefix
    with session.database.lock:
        log = session.database.redo.current
        written = (log.sequence, len(log.records), session.database.scn)
    yield THREAD, "OPEN", "PUBLIC", GROUPS, "orcl", log.sequence, *written


def _transactions(session: Session, prefix: str) -> Rows:
    del prefix
    with session.database.lock:
        found = list(session.database.transactions.values()) if _sees_pluggable(session) else []
    for one in found:
        yield (*one.xid, "ACTIVE", day(one.since), one.start_scn, len(one.records), _xid(one.xid), day(one.since))


def _xid(xid: tuple[int, int, int]) -> str:
    return (
        "\\x"
        + xid[0].to_bytes(2, "little").hex()
        + xid[1].to_bytes(2, "little").hex()
        + xid[2].to_bytes(4, "little").hex()
    )


def _sees_pluggable(session: Session) -> bool:
    """V$ and GV$ views are container data objects (Database Reference, "About Dynamic Performance Views")."""
    return not session.in_root or session.account.sees_container(PLUGGABLE)


def _pluggable(session: Session, prefix: str) -> Rows:
    del prefix
    if session.in_container_database and _sees_pluggable(session):
        yield PLUGGABLE_ID, DBID + 1, PLUGGABLE, "READ WRITE" if session.database.pluggable_open else "MOUNTED"


def _containers(session: Session, prefix: str) -> Rows:
    if not session.in_container_database:
        yield 0, DBID, "ORCL", "READ WRITE"
        return
    if session.in_root:
        yield 1, DBID, ROOT, "READ WRITE"
    yield from _pluggable(session, prefix)


def _parameters(session: Session, prefix: str) -> Rows:
    del prefix
    known = PARAMETERS | session.database.catalog.parameters
    return ((at, name, known[name], known[name], "FALSE") for at, name in enumerate(sorted(known), 1))


def contents(session: Session, names: Sequence[str]) -> Rows:
    """V$LOGMNR_CONTENTS, these columns alone: a log is long."""
    wanted = [CONTENTS[name] for name in names]
    return ([one(row) for one in wanted] for row in session.miner.rows())


CONTENTS: dict[str, Callable[[Row], Any]] = {
    "SCN": lambda row: row.record.scn,
    "START_SCN": lambda row: row.start and row.start.scn,
    "COMMIT_SCN": lambda row: row.commit and row.commit.scn,
    "TIMESTAMP": lambda row: day(row.record.at),
    "START_TIMESTAMP": lambda row: row.start and day(row.start.at),
    "COMMIT_TIMESTAMP": lambda row: row.commit and day(row.commit.at),
    "XIDUSN": lambda row: row.record.xid[0],
    "XIDSLT": lambda row: row.record.xid[1],
    "XIDSQN": lambda row: row.record.xid[2],
    "XID": lambda row: _xid(row.record.xid),
    "OPERATION": lambda row: NAMES[row.operation],
    "OPERATION_CODE": lambda row: row.operation,
    "ROLLBACK": lambda row: int(row.record.undo),
    "SEG_OWNER": lambda row: row.owner,
    "SEG_NAME": lambda row: row.name,
    "TABLE_NAME": lambda row: row.name,
    "SEG_TYPE": lambda row: 2 if row.name else 0,
    "SEG_TYPE_NAME": lambda row: "TABLE" if row.name else None,
    "ROW_ID": lambda row: row.row_id,
    "USERNAME": lambda row: row.record.user,
    "THREAD#": lambda _: THREAD,
    "SEQUENCE#": lambda row: row.record.place[0],
    "RBASQN": lambda row: row.record.place[0],
    "RBABLK": lambda row: row.record.place[1] // BLOCK + 2,
    "RBABYTE": lambda row: row.record.place[1] % BLOCK + 16,
    "DATA_OBJ#": lambda row: row.record.obj,
    "DATA_OBJD#": lambda row: row.record.data_obj or row.record.obj,
    "DATA_OBJV#": lambda row: row.record.version,
    "SQL_REDO": lambda row: row.redo,
    "SQL_UNDO": lambda row: row.undo and row.undo(),
    "RS_ID": lambda row: place(row.record),
    "SSN": lambda row: row.part,
    "CSF": lambda row: int(row.goes_on),
    "INFO": lambda row: row.info,
    "STATUS": lambda row: row.status,
    "SRC_CON_NAME": lambda _: "ORCL",
    "SRC_CON_ID": lambda _: 0,
    "CON_ID": lambda _: 0,
    "CSCN": lambda row: row.record.scn,
}


def _mined(session: Session, prefix: str) -> Rows:
    del prefix
    for at, (name, log) in enumerate(session.miner.files.items(), 1):
        yield (
            at,
            name,
            day(log.since),
            day(log.until or time.time()),
            DBID,
            "ORCL",
            THREAD,
            log.sequence,
            log.first,
            log.next,
        )


def _sessions(session: Session, prefix: str) -> Rows:
    del prefix
    yield session.number, 1, session.user, "ACTIVE", "USER"


_PRODUCT = "Oracle Database 19c Enterprise Edition"
PERFORMANCE_VIEWS: dict[str, Callable[[Session, str], Rows]] = {
    "NLS_DATABASE_PARAMETERS": _nls_of_database,
    "NLS_SESSION_PARAMETERS": _nls,
    "V$NLS_PARAMETERS": _nls,
    "PRODUCT_COMPONENT_VERSION": lambda *_: iter([(_PRODUCT, FULL_VERSION, FULL_VERSION, "Production")]),
    "V$VERSION": lambda *_: iter([(*(f"{_PRODUCT} Release {FULL_VERSION} - Production (emulated)",) * 2, 0)]),
    "V$DATABASE": _database,
    "V$INSTANCE": _instance,
    "V$CONTAINERS": _containers,
    "V$PDBS": _pluggable,
    "V$THREAD": _threads,
    "V$TRANSACTION": _transactions,
    "V$SESSION": _sessions,
    "V$PARAMETER": _parameters,
    "V$SYSTEM_PARAMETER": _parameters,
    "V$LOG": _logs,
    "V$LOGFILE": _log_files,
    "V$ARCHIVED_LOG": _archived,
    "V$ARCHIVE_DEST_STATUS": lambda *_: iter([(1, "VALID", "LOCAL")]),
    "V$LOGMNR_LOGS": _mined,
    "V$LOGMNR_CONTENTS": lambda session, _: contents(session, tuple(CONTENTS)),
}
