"""The data dictionary and the dynamic performance views, each with the rows that the session's user may see (Database
Reference).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from testing.servers.oracle.engine.catalog import ADMINISTRATORS, DICTIONARY, Column, Table
from testing.servers.oracle.engine.kinds import DATE, NUMBER, NUMBERS, Kind
from testing.servers.oracle.engine.logminer import FILE, NAMES, Row, place
from testing.servers.oracle.engine.redo import BLOCK, COMMIT, ENDLESS
from testing.servers.oracle.wire.handshake import RELEASE

if TYPE_CHECKING:
    from testing.servers.oracle.engine.session import Session

KINDS = {"n": NUMBER, "d": DATE, "t": Kind("VARCHAR2", 128), "c": Kind("VARCHAR2", 4000), "l": Kind("LONG"),
         "r": Kind("RAW", 8)}  # fmt: skip
DBID, RESETLOGS, THREAD = 1_700_000_001, 1, 1
FULL_VERSION = ".".join(map(str, RELEASE))
PARAMETERS = {
    "compatible": "19.0.0", "undo_retention": "900", "open_cursors": "300", "enable_goldengate_replication": "FALSE",
    "db_name": "ORCL", "max_string_size": "STANDARD", "cluster_database": "FALSE", "db_block_size": "8192",
}  # fmt: skip
NLS = {
    "NLS_LANGUAGE": "AMERICAN", "NLS_TERRITORY": "AMERICA", "NLS_CHARACTERSET": "AL32UTF8",
    "NLS_NCHAR_CHARACTERSET": "AL16UTF16", "NLS_RDBMS_VERSION": FULL_VERSION, "NLS_SORT": "BINARY", "NLS_COMP": "BINARY",
    "NLS_LENGTH_SEMANTICS": "BYTE", "NLS_DATE_FORMAT": "DD-MON-RR", "NLS_NUMERIC_CHARACTERS": ".,",
}  # fmt: skip
Rows = Iterator[Sequence[Any]]


@dataclass(frozen=True)
class View:
    """relation: columns by name, with their names in Postgres and types."""

    relation: dict[str, tuple[str, Kind]]
    rows: list[Sequence[Any]]


def view(session: Session, name: str) -> View | None:
    """None where there is none, or the user may not read it."""
    name = name.replace("V_$", "V$", 1) if name.startswith(("V_$", "GV_$")) else name
    base, prefix = name, ""
    for one in ("ALL_", "DBA_", "USER_"):
        if name.startswith(one) and f"ALL_{name.removeprefix(one)}" in VIEWS:
            base, prefix = f"ALL_{name.removeprefix(one)}", one
    everywhere = name.startswith("GV$")
    base = base.replace("GV$", "V$", 1) if everywhere else base
    if base not in VIEWS or not _granted(session, name):
        return None
    columns, rows = VIEWS[base]
    made = [one.rpartition(":") for one in columns.split()]
    found = [list(row) for row in rows(session, prefix or "ALL_")]
    if prefix == "USER_" and made[0][0] == "OWNER":
        found = [row[1:] for row in found if row[0] == session.user]
        made = made[1:]
    if everywhere:
        made, found = [("INST_ID", ":", "n"), *made], [[1, *row] for row in found]
    relation = {column: (f"n{at}", KINDS[kind]) for at, (column, _, kind) in enumerate(made)}
    return View(relation, found)


def _granted(session: Session, name: str) -> bool:
    account = session.account
    if not name.startswith(("V$", "GV$", "DBA_")) or name in ("V$NLS_PARAMETERS", "V$VERSION"):
        return True
    shown = name.replace("V$", "V_$", 1)
    return account.has(*DICTIONARY) or any(grant[:2] == ("SYS", shown) for grant in account.grants)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _tables(session: Session, prefix: str) -> Iterator[Table]:
    for table in session.database.catalog.tables.values():
        if prefix == "DBA_" or session.database.catalog.sees(session.account, table):
            yield table


def _all_tables(session: Session, prefix: str) -> Rows:
    for one in _tables(session, prefix):
        kind = "IOT" if one.organized else None
        yield (one.owner, one.name, None if one.temporary or one.partitions else "USERS", "VALID", None, None,
               "YES" if one.partitions else "NO", kind, "Y" if one.temporary else "N", "N", "NO", "NO", "YES", "DISABLED",
               "NO", "NO")  # fmt: skip


def _columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        visible = 0
        for at, column in enumerate(table.columns, 1):
            visible += not column.hidden
            yield (table.owner, table.name, *_column(column), None if column.hidden else visible, column.default,
                   len(column.default) if column.default else None, "YES" if column.hidden else "NO", "NO", at, at)  # fmt: skip


def _column(column: Column) -> Sequence[Any]:
    kind = column.kind
    text = kind.name in ("VARCHAR2", "CHAR", "NVARCHAR2", "NCHAR")
    precision = kind.precision if kind.name in (*NUMBERS, "INTERVAL YEAR TO MONTH", "INTERVAL DAY TO SECOND") else None
    scale = kind.scale if kind.name not in ("FLOAT",) else None
    charset = (
        "NCHAR_CS" if kind.name.startswith("N") and (text or kind.name == "NCLOB") else "CHAR_CS" if text else None
    )
    owner = kind.owner or ("SYS" if kind.name == "XMLTYPE" else None)
    length = kind.length if text else 0
    used = ("C" if kind.by_char else "B") if text else None
    return (column.name, kind.shown, owner, kind.bytes, precision, scale, "Y" if column.nullable else "N", length, used,
            charset)  # fmt: skip


def _visible(session: Session, prefix: str) -> Rows:
    return (row for row in _columns(session, prefix) if row[12] is not None)


def _constraints(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.constraints:
            target = one.target or (None, None)
            index = next(
                (index.name for index in table.indexes if one.kind in "PU" and index.columns == one.columns), None
            )
            yield (table.owner, one.name, one.kind, table.name, one.condition or None, *target,
                   one.delete_rule if one.kind == "R" else None, "ENABLED", "NOT DEFERRABLE", "IMMEDIATE", "VALIDATED",
                   "GENERATED NAME" if one.generated else "USER NAME", table.owner if index else None, index)  # fmt: skip


def _constraint_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.constraints:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.name, column.name, at if one.kind != "C" else None


def _indexes(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.indexes:
            unique = "UNIQUE" if one.unique else "NONUNIQUE"
            kind = "IOT - TOP" if table.organized and table.key and table.key.columns == one.columns else "NORMAL"
            yield table.owner, one.name, kind, table.owner, table.name, "TABLE", unique, "VALID", "NO", "VISIBLE"


def _index_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.indexes:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.owner, table.name, column.name, at, "ASC"


def _log_groups(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.log_groups:
            kind = "GENERATED NAME" if one.name.startswith("SYS_C") else "USER NAME"
            yield table.owner, one.name, table.name, one.kind, "ALWAYS" if one.always else "CONDITIONAL", kind


def _group_columns(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for one in table.log_groups:
            for at, column in enumerate(table.named(one.columns), 1):
                yield table.owner, one.name, table.name, column.name, at, "LOG"


def _objects(session: Session, prefix: str) -> Rows:
    since = _day(session.database.started)
    for table in _tables(session, prefix):
        yield (table.owner, table.name, None, table.obj, table.data_obj, "TABLE", since, since, "VALID",
               "Y" if table.temporary else "N", "N", "N")  # fmt: skip
        for index in table.indexes:
            yield (
                table.owner,
                index.name,
                None,
                table.obj + 1,
                table.obj + 1,
                "INDEX",
                since,
                since,
                "VALID",
                "N",
                "N",
                "N",
            )
    for owner, name in session.database.catalog.types:
        yield owner, name, None, 1, None, "TYPE", since, since, "VALID", "N", "N", "N"


def _partitions(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        for at, one in enumerate(table.partitions, 1):
            yield table.owner, table.name, "NO", one, 0, at


def _comments(session: Session, prefix: str) -> Rows:
    return ((one.owner, one.name, "TABLE", one.comment) for one in _tables(session, prefix))


def _column_comments(session: Session, prefix: str) -> Rows:
    for table in _tables(session, prefix):
        known = dict(table.comments)
        for column in table.columns:
            yield table.owner, table.name, column.name, known.get(column.id)


def _users(session: Session, prefix: str) -> Rows:
    del prefix
    for one in session.database.catalog.users.values():
        ours = "Y" if one.name in ADMINISTRATORS else "N"
        yield one.name, one.id, _day(session.database.started), "NO", ours, "NO"


def _privileges(session: Session, prefix: str) -> Rows:
    del prefix
    account = session.account
    every = ("CREATE SESSION", "CREATE TABLE", "ALTER SYSTEM", "ALTER DATABASE", "SELECT ANY TABLE", "FLASHBACK ANY TABLE",
             "SELECT ANY TRANSACTION", "LOGMINING", "SELECT ANY DICTIONARY", "LOCK ANY TABLE", "ALTER ANY TABLE")  # fmt: skip
    return ((one,) for one in sorted({*account.all_privileges, *(every if account.administrator else ())}))


def _roles(session: Session, prefix: str) -> Rows:
    del prefix
    account = session.account
    more = {"SELECT_CATALOG_ROLE", "EXECUTE_CATALOG_ROLE"} if account.administrator else set()
    return ((one,) for one in sorted({*account.roles, *more}))


def _grants(session: Session, prefix: str) -> Rows:
    del prefix
    for user in session.database.catalog.users.values():
        for owner, name, privilege in sorted(user.grants):
            if session.user in (user.name, owner):
                yield user.name, owner, name, owner, privilege, "NO", "NO", "NO", "TABLE", "NO"


def _database(session: Session, prefix: str) -> Rows:
    del prefix
    database = session.database
    with database.lock:
        logging, scn = database.catalog.database_logging, database.scn
        first = database.redo.logs[0]
    yes = {
        one: "YES" if f"{one} KEY" in logging or one in logging else "NO"
        for one in ("MIN", "PRIMARY", "UNIQUE", "FOREIGN")
    }
    implied = "IMPLICIT" if logging - {"MIN"} else "NO"
    yield (DBID, "ORCL", _day(first.since), RESETLOGS, _day(first.since), 0, "ARCHIVELOG",
           database.redo.current.first, "READ WRITE", "MAXIMUM PERFORMANCE", "PRIMARY", scn, "NO",
           "YES" if "MIN" in logging else implied, yes["PRIMARY"], yes["UNIQUE"],
           "NO", yes["FOREIGN"], "YES" if "ALL COLUMN" in logging else "NO", "NO", "ORCL", "NO", 0, "Linux x86 64-bit",
           "NO", _day(time.time()))  # fmt: skip


def _instance(session: Session, prefix: str) -> Rows:
    del prefix
    since = _day(session.database.started)
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
                   "CURRENT" if current else "INACTIVE", log.first, _day(log.since), log.next,
                   None if current else _day(log.until), 0)  # fmt: skip


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
        yield (at, at, None if gone else str(log.archived), 1, THREAD, log.sequence, RESETLOGS, log.first, _day(log.since),
               log.next, _day(log.until), -(-log.size // BLOCK), BLOCK, "ARCH", "ARCH", "NO", "YES", "NO",
               "YES" if gone else "NO", "D" if gone else "A", _day(log.until), "NO", "NO", DBID)  # fmt: skip


def _transactions(session: Session, prefix: str) -> Rows:
    del prefix
    with session.database.lock:
        found = list(session.database.transactions.values())
    for one in found:
        yield (*one.xid, "ACTIVE", _day(one.since), one.start_scn, len(one.records), _xid(one.xid), _day(one.since))


def _xid(xid: tuple[int, int, int]) -> str:
    return (
        "\\x"
        + xid[0].to_bytes(2, "little").hex()
        + xid[1].to_bytes(2, "little").hex()
        + xid[2].to_bytes(4, "little").hex()
    )


def _parameters(session: Session, prefix: str) -> Rows:
    del prefix
    known = PARAMETERS | session.database.catalog.parameters
    return ((at, name, known[name], known[name], "FALSE") for at, name in enumerate(sorted(known), 1))


def _contents(session: Session, prefix: str) -> Rows:
    del prefix
    return (_content(row) for row in session.miner.rows())


def _content(row: Row) -> Sequence[Any]:
    record, commit, start = row.record, row.commit, row.start
    sequence, at = record.place
    return (
        record.scn, start.scn if start else None, commit.scn if commit else None, _day(record.at),
        _day(start.at) if start else None, _day(commit.at) if commit else None, *record.xid, _xid(record.xid),
        NAMES[row.operation], row.operation, int(record.undo), row.owner, row.name, row.name,
        2 if row.name else 0, "TABLE" if row.name else None, row.row_id, record.user, THREAD, sequence, sequence,
        at // BLOCK + 2, at % BLOCK + 16, record.obj, record.data_obj or record.obj, record.version, row.redo, row.undo,
        place(record), row.part, int(row.goes_on), row.info, row.status, "ORCL", 0, 0, record.scn,
    )  # fmt: skip


def _mined(session: Session, prefix: str) -> Rows:
    del prefix
    for at, (name, log) in enumerate(session.miner.files.items(), 1):
        yield (
            at,
            name,
            _day(log.since),
            _day(log.until or time.time()),
            DBID,
            "ORCL",
            THREAD,
            log.sequence,
            log.first,
            log.next,
        )


def _none(session: Session, prefix: str) -> Rows:
    del session, prefix
    return iter(())


def _nls(session: Session, prefix: str) -> Rows:
    del prefix
    return iter([*(NLS | session.nls).items()])


def _sessions(session: Session, prefix: str) -> Rows:
    del prefix
    yield session.number, 1, session.user, "ACTIVE", "USER"


assert COMMIT
assert FILE
assert ENDLESS
VIEWS: dict[str, tuple[str, Callable[[Session, str], Rows]]] = {
    "ALL_TABLES": (
        "OWNER:t TABLE_NAME:t TABLESPACE_NAME:t STATUS:t NUM_ROWS:n BLOCKS:n PARTITIONED:t IOT_TYPE:t TEMPORARY:t SECONDARY:t"
        " NESTED:t DROPPED:t LOGGING:t COMPRESSION:t EXTERNAL:t CLUSTERING:t",
        _all_tables,
    ),
    "ALL_TAB_COLS": (
        "OWNER:t TABLE_NAME:t COLUMN_NAME:t DATA_TYPE:t DATA_TYPE_OWNER:t DATA_LENGTH:n DATA_PRECISION:n DATA_SCALE:n"
        " NULLABLE:t CHAR_LENGTH:n CHAR_USED:t CHARACTER_SET_NAME:t COLUMN_ID:n DATA_DEFAULT:l DEFAULT_LENGTH:n"
        " HIDDEN_COLUMN:t VIRTUAL_COLUMN:t INTERNAL_COLUMN_ID:n SEGMENT_COLUMN_ID:n",
        _columns,
    ),
    "ALL_TAB_COLUMNS": (
        "OWNER:t TABLE_NAME:t COLUMN_NAME:t DATA_TYPE:t DATA_TYPE_OWNER:t DATA_LENGTH:n DATA_PRECISION:n DATA_SCALE:n"
        " NULLABLE:t CHAR_LENGTH:n CHAR_USED:t CHARACTER_SET_NAME:t COLUMN_ID:n DATA_DEFAULT:l DEFAULT_LENGTH:n"
        " HIDDEN_COLUMN:t VIRTUAL_COLUMN:t INTERNAL_COLUMN_ID:n SEGMENT_COLUMN_ID:n",
        _visible,
    ),
    "ALL_CONSTRAINTS": (
        "OWNER:t CONSTRAINT_NAME:t CONSTRAINT_TYPE:t TABLE_NAME:t SEARCH_CONDITION:l R_OWNER:t R_CONSTRAINT_NAME:t"
        " DELETE_RULE:t STATUS:t DEFERRABLE:t DEFERRED:t VALIDATED:t GENERATED:t INDEX_OWNER:t INDEX_NAME:t",
        _constraints,
    ),
    "ALL_CONS_COLUMNS": ("OWNER:t CONSTRAINT_NAME:t TABLE_NAME:t COLUMN_NAME:t POSITION:n", _constraint_columns),
    "ALL_INDEXES": (
        "OWNER:t INDEX_NAME:t INDEX_TYPE:t TABLE_OWNER:t TABLE_NAME:t TABLE_TYPE:t UNIQUENESS:t STATUS:t PARTITIONED:t"
        " VISIBILITY:t",
        _indexes,
    ),
    "ALL_IND_COLUMNS": (
        "INDEX_OWNER:t INDEX_NAME:t TABLE_OWNER:t TABLE_NAME:t COLUMN_NAME:t COLUMN_POSITION:n DESCEND:t", _index_columns,
    ),
    "ALL_LOG_GROUPS": ("OWNER:t LOG_GROUP_NAME:t TABLE_NAME:t LOG_GROUP_TYPE:t ALWAYS:t GENERATED:t", _log_groups),
    "ALL_LOG_GROUP_COLUMNS": (
        "OWNER:t LOG_GROUP_NAME:t TABLE_NAME:t COLUMN_NAME:t POSITION:n LOGGING_PROPERTY:t", _group_columns,
    ),
    "ALL_OBJECTS": (
        "OWNER:t OBJECT_NAME:t SUBOBJECT_NAME:t OBJECT_ID:n DATA_OBJECT_ID:n OBJECT_TYPE:t CREATED:d LAST_DDL_TIME:d STATUS:t"
        " TEMPORARY:t GENERATED:t SECONDARY:t",
        _objects,
    ),
    "ALL_TAB_PARTITIONS": (
        "TABLE_OWNER:t TABLE_NAME:t COMPOSITE:t PARTITION_NAME:t SUBPARTITION_COUNT:n PARTITION_POSITION:n", _partitions,
    ),
    "ALL_TAB_COMMENTS": ("OWNER:t TABLE_NAME:t TABLE_TYPE:t COMMENTS:c", _comments),
    "ALL_COL_COMMENTS": ("OWNER:t TABLE_NAME:t COLUMN_NAME:t COMMENTS:c", _column_comments),
    "ALL_USERS": ("USERNAME:t USER_ID:n CREATED:d COMMON:t ORACLE_MAINTAINED:t INHERITED:t", _users),
    "ALL_TAB_PRIVS": (
        "GRANTEE:t OWNER:t TABLE_NAME:t GRANTOR:t PRIVILEGE:t GRANTABLE:t HIERARCHY:t COMMON:t TYPE:t INHERITED:t", _grants,
    ),
    "ALL_VIEWS": ("OWNER:t VIEW_NAME:t", _none), "ALL_MVIEWS": ("OWNER:t MVIEW_NAME:t CONTAINER_NAME:t", _none),
    "ALL_EXTERNAL_TABLES": ("OWNER:t TABLE_NAME:t", _none),
    "ALL_ENCRYPTED_COLUMNS": ("OWNER:t TABLE_NAME:t COLUMN_NAME:t", _none),
    "ALL_PDBS": ("PDB_ID:n PDB_NAME:t STATUS:t", _none),
    "SESSION_PRIVS": ("PRIVILEGE:t", _privileges), "SESSION_ROLES": ("ROLE:t", _roles),
    "NLS_DATABASE_PARAMETERS": ("PARAMETER:t VALUE:t", lambda *_: iter(NLS.items())),
    "NLS_SESSION_PARAMETERS": ("PARAMETER:t VALUE:t", _nls), "V$NLS_PARAMETERS": ("PARAMETER:t VALUE:t", _nls),
    "PRODUCT_COMPONENT_VERSION": (
        "PRODUCT:t VERSION:t VERSION_FULL:t STATUS:t",
        lambda *_: iter([("Oracle Database 19c Enterprise Edition ", FULL_VERSION, FULL_VERSION, "Production")]),
    ),
    "V$VERSION": (
        "BANNER:t BANNER_FULL:t CON_ID:n",
        lambda *_: iter([(f"Oracle Database 19c Enterprise Edition Release {FULL_VERSION} - Production (emulated)",) * 2 + (0,)]),
    ),
    "V$DATABASE": (
        "DBID:n NAME:t CREATED:d RESETLOGS_CHANGE#:n RESETLOGS_TIME:d PRIOR_RESETLOGS_CHANGE#:n LOG_MODE:t CHECKPOINT_CHANGE#:n OPEN_MODE:t"
        " PROTECTION_MODE:t DATABASE_ROLE:t CURRENT_SCN:n FORCE_LOGGING:t SUPPLEMENTAL_LOG_DATA_MIN:t"
        " SUPPLEMENTAL_LOG_DATA_PK:t SUPPLEMENTAL_LOG_DATA_UI:t FLASHBACK_ON:t SUPPLEMENTAL_LOG_DATA_FK:t"
        " SUPPLEMENTAL_LOG_DATA_ALL:t SUPPLEMENTAL_LOG_DATA_PL:t DB_UNIQUE_NAME:t CDB:t CON_ID:n PLATFORM_NAME:t"
        " SUPPLEMENTAL_LOG_DATA_SR:t CONTROLFILE_TIME:d",
        _database,
    ),
    "V$INSTANCE": (
        "INSTANCE_NUMBER:n INSTANCE_NAME:t HOST_NAME:t VERSION:t VERSION_FULL:t STARTUP_TIME:d STATUS:t PARALLEL:t THREAD#:n"
        " ARCHIVER:t INSTANCE_ROLE:t EDITION:t",
        _instance,
    ),
    "V$CONTAINERS": ("CON_ID:n DBID:n NAME:t OPEN_MODE:t", lambda *_: iter([(0, DBID, "ORCL", "READ WRITE")])),
    "V$PDBS": ("CON_ID:n DBID:n NAME:t OPEN_MODE:t", _none),
    "V$THREAD": (
        "THREAD#:n STATUS:t ENABLED:t GROUPS:n INSTANCE:t SEQUENCE#:n LAST_REDO_CHANGE#:n",
        lambda me, _: iter([(
            THREAD, "OPEN", "PUBLIC", 3, "orcl", me.database.redo.current.sequence, me.database.scn
        )]),
    ),
    "V$TRANSACTION": (
        "XIDUSN:n XIDSLOT:n XIDSQN:n STATUS:t START_TIME:t START_SCN:n USED_UREC:n XID:r START_DATE:d", _transactions,
    ),
    "V$SESSION": ("SID:n SERIAL#:n USERNAME:t STATUS:t TYPE:t", _sessions),
    "V$PARAMETER": ("NUM:n NAME:t VALUE:c DISPLAY_VALUE:c ISDEFAULT:t", _parameters),
    "V$SYSTEM_PARAMETER": ("NUM:n NAME:t VALUE:c DISPLAY_VALUE:c ISDEFAULT:t", _parameters),
    "V$LOG": (
        "GROUP#:n THREAD#:n SEQUENCE#:n BYTES:n BLOCKSIZE:n MEMBERS:n ARCHIVED:t STATUS:t FIRST_CHANGE#:n FIRST_TIME:d"
        " NEXT_CHANGE#:n NEXT_TIME:d CON_ID:n",
        _logs,
    ),
    "V$LOGFILE": ("GROUP#:n STATUS:t TYPE:t MEMBER:c IS_RECOVERY_DEST_FILE:t CON_ID:n", _log_files),
    "V$ARCHIVED_LOG": (
        "RECID:n STAMP:n NAME:c DEST_ID:n THREAD#:n SEQUENCE#:n RESETLOGS_CHANGE#:n FIRST_CHANGE#:n FIRST_TIME:d"
        " NEXT_CHANGE#:n NEXT_TIME:d BLOCKS:n BLOCK_SIZE:n CREATOR:t REGISTRAR:t STANDBY_DEST:t ARCHIVED:t APPLIED:t DELETED:t"
        " STATUS:t COMPLETION_TIME:d DICTIONARY_BEGIN:t DICTIONARY_END:t ACTIVATION#:n",
        _archived,
    ),
    "V$ARCHIVE_DEST_STATUS": (
        "DEST_ID:n STATUS:t TYPE:t", lambda *_: iter([(1, "VALID", "LOCAL")]),
    ),
    "V$LOGMNR_LOGS": (
        "LOG_ID:n FILENAME:c LOW_TIME:d HIGH_TIME:d DB_ID:n DB_NAME:t THREAD_ID:n THREAD_SQN:n LOW_SCN:n NEXT_SCN:n", _mined,
    ),
    "V$LOGMNR_CONTENTS": (
        "SCN:n START_SCN:n COMMIT_SCN:n TIMESTAMP:d START_TIMESTAMP:d COMMIT_TIMESTAMP:d XIDUSN:n XIDSLT:n XIDSQN:n XID:r"
        " OPERATION:t OPERATION_CODE:n ROLLBACK:n SEG_OWNER:t SEG_NAME:t TABLE_NAME:t SEG_TYPE:n SEG_TYPE_NAME:t ROW_ID:t"
        " USERNAME:t THREAD#:n SEQUENCE#:n RBASQN:n RBABLK:n RBABYTE:n DATA_OBJ#:n DATA_OBJD#:n DATA_OBJV#:n SQL_REDO:c"
        " SQL_UNDO:c RS_ID:t SSN:n CSF:n INFO:t STATUS:n SRC_CON_NAME:t SRC_CON_ID:n CON_ID:n CSCN:n",
        _contents,
    ),
}  # fmt: skip
