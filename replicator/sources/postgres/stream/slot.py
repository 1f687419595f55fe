"""What Tidemark keeps on the source for a replicator: a publication that says which tables are in the log, and a slot
that keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any

from replicator.errors import (
    LogPurged,
    SourceBusy,
    SourceError,
    SourceMisconfigured,
    SourcePermissionDenied,
    TableBusy,
    TableDisappeared,
    TableError,
    TidemarkError,
)
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.table_set import TableSet
from replicator.sources.base import WITHOUT_END, LogHeld, SourceLoad, SourceState, SourceWait
from replicator.sources.postgres.blocking_transactions import endings, listed, lock_holders, locked_by, writing
from replicator.sources.postgres.catalog.catalog import GENERATED_LOGGED, PostgresCatalog
from replicator.sources.postgres.catalog.publication import FILTERS_SINCE, published, sound
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, literal, quoted, read_rows, server_version, translated
from replicator.sources.postgres.ddl import event_trigger
from replicator.sources.postgres.offset import LsnOffset, parse_lsn
from replicator.sources.postgres.stream.catalog_observer import now
from replicator.sources.postgres.stream.slot_creation import create_slot
from replicator.sources.postgres.stream.snapshot_barriers import whole_from, with_barriers
from replicator.sources.postgres.watermark import SCHEMA, create_statements, forget, needs_table, watermark_table
from replicator.sources.postgres.xid_snapshot import Snapshot

PLUGIN = "pgoutput"
FAILOVER_SINCE = 170000
SCHEMAS_SINCE = 150000
LEAVE_SECONDS = 10.0
_TRIGGERS = ", ".join(f"'{name}'" for name in event_trigger.TRIGGERS)
_COMMENT = (
    "LEFT JOIN pg_catalog.pg_description d ON d.objoid = p.oid "
    "AND d.classoid = 'pg_catalog.pg_publication'::pg_catalog.regclass"
)
_BRIEFLY = "SET LOCAL lock_timeout = '100ms'"  # of the statements that are sent with it
_FOR_VACUUM = "SET LOCAL lock_timeout = '2s'"  # deadlock_timeout and more
_ROOT = "publish_via_partition_root = true"
_MEMBERS = (
    "SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_publication p "
    "JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid JOIN pg_catalog.pg_class c ON c.oid = r.prrelid "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
)
_KEPT = "pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), s.restart_lsn)"
# Whose state is shown to us (pg_monitor sees all); the readers' own among them.
_LOAD = """
SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity a
  WHERE a.state = 'active' AND a.backend_type = 'client backend' AND a.pid <> pg_catalog.pg_backend_pid()),
(SELECT pg_catalog.max(EXTRACT(epoch FROM r.replay_lag)) FROM pg_catalog.pg_stat_replication r
  LEFT JOIN pg_catalog.pg_replication_slots s ON s.active_pid = r.pid WHERE COALESCE(s.slot_type,
    'physical') = 'physical')
"""
_UNREADABLE = " AND (s.confirmed_flush_lsn IS NULL OR s.wal_status = 'lost')"  # half made, or invalidated by the server
_THREATENED = frozenset({"extended", "unreserved"})  # beyond max_wal_size; beyond max_slot_wal_keep_size


class ReplicationSlot:
    """A RetainedLog (replicator.sources.base), on a connection that is the source's."""

    def __init__(self, connection: Connection, config: PostgresConfig, replicator: str) -> None:
        self._connection, self._config, self._replicator = connection, config, replicator
        self.publication = config.publication_for(replicator)
        self.slot = config.slot_for(replicator)
        self.added: set[TableId] = set()  # added here since another session last changed how tables are published

    def state(self) -> SourceState:
        """Return the log's end now; `identity` is the server's system identifier and the database."""
        row = self._rows(
            "SELECT s.system_identifier::text, pg_catalog.current_database()::text, pg_catalog.version(), "
            "pg_catalog.pg_current_wal_flush_lsn()::text FROM pg_catalog.pg_control_system() s"
        )[0]
        seen = now(self._connection, self._config.where)
        # The log has the tables that the publication had at the time.
        offset, identity = LsnOffset(parse_lsn(row[3])), f"postgres-{row[0]}-{row[1]}"
        return SourceState(offset, identity, seen.at, row[2], has_gaps=True)

    def prepare(self, tables: TableSet, *, first: bool, waiting: SourceWait = WITHOUT_END) -> SourceState:
        """Create the publication before the slot.

        The log is decoded under the catalog of its own time, which must have the publication.
        """
        if first and not self._config.slot:
            self._drop(self._without_publication)
        self.publish(tables)
        if self._config.event_trigger and not needs_table(self._connection):
            self._watch_definitions()
        if not first:
            self._check()
            return self.state()
        state = self.state()
        start = self._begin(waiting)
        running = frozenset(str(xid % (1 << 32)) for xid in now(self._connection, self._config.where).snapshot.running)
        return replace(state, offset=LsnOffset(start, lambda: running))

    def load(self) -> SourceLoad:
        """Of the replicas, physical ones: what logical ones confirm, ours among them, is their own matter."""
        running, lag = self._rows(_LOAD)[0]
        return SourceLoad(int(running), None if lag is None else float(lag))

    def held(self, checkpoint: Offset | None) -> LogHeld | None:
        """Return what the slot retains, regardless of the checkpoint; None if there is no slot yet."""
        del checkpoint
        rows = self._rows(
            f"SELECT {_KEPT}::int8, s.wal_status, s.safe_wal_size FROM pg_catalog.pg_replication_slots s "
            f"WHERE s.slot_name = {literal(self.slot)}"
        )
        if not rows:
            return None
        size, status, left = rows[0]
        return LogHeld(
            size,
            str(status),
            lost=status == "lost",
            threatened=status in _THREATENED,
            limit=self._limit,
            left=left,
        )

    def give_up(self) -> bool:
        """The slot, unless it is the user's.

        Measured and dropped in one statement: capture may make a new one meanwhile.
        """
        if self._config.slot or self._limit is None:
            return False
        return self._drop(f" AND {_KEPT} > {self._limit}")

    @property
    def _limit(self) -> int | None:
        limit = self._config.retention_limit_mb
        return None if limit is None else limit * 1024 * 1024

    def remove(self) -> None:
        """The slot, the publication, the marks; what the user has brought stays."""
        if not self._config.slot:
            self._drop()
        if not self._config.publication:
            self._run(f"DROP PUBLICATION IF EXISTS {quoted(self.publication)}")
        forget(self._connection, self._replicator)
        others = r"SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name LIKE 'tidemark\_%'"
        if not self._rows(others):
            self._leave()

    def _leave(self) -> None:
        """What replicators share, behind the last of them."""
        if self._rows(f"SELECT FROM pg_catalog.pg_event_trigger WHERE evtname IN ({_TRIGGERS})"):
            for statement in event_trigger.drop_statements():
                self._run(statement)
        if self._rows(f"SELECT FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'"):
            with suppress(TidemarkError):  # not ours alone, or another's
                self._run(f"DROP TABLE IF EXISTS {_name(watermark_table())}")
                self._run(f"DROP SCHEMA {SCHEMA}")

    def _watch_definitions(self) -> None:
        """The event trigger, as this version has it."""
        found = self._rows(
            "SELECT p.prosrc FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid "
            f"WHERE e.evtname IN ({_TRIGGERS}) AND e.evtenabled <> 'D' AND p.prosecdef "
            "AND EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE {event_trigger.IS_KEY_TABLE})"
        )
        if [row[0] for row in found] != [event_trigger.BODY] * len(event_trigger.TRIGGERS):
            for statement in event_trigger.create_statements():
                self._run(statement)

    def publish(self, tables: TableSet) -> None:
        """Add all tables of the selection that can be replicated to the publication.

        None is removed here (see `withdraw`): a worker that has lost the lease does not know what another has added.
        """
        if self._config.publication:
            self._check_publication()
            return
        catalog = PostgresCatalog(self._connection, left_out=tables)
        wanted = set(tables.tables) | {name for schema in tables.searched for name in catalog.names(schema)}
        fit = {
            table
            for table, found in catalog.details(sorted(wanted & {t for t in wanted if t in tables})).items()
            if not isinstance(found, TableError)
        }
        if needs_table(self._connection):
            for statement in create_statements():
                self._run(statement)
            fit.add(watermark_table())
        if self._members() is not None:
            self._mend()
        members = self._members()
        if members is None:
            stored = server_version(self._connection) >= GENERATED_LOGGED  # as the catalog describes tables
            more = ", publish_generated_columns = stored" if stored else ""
            self._run(f"CREATE PUBLICATION {quoted(self.publication)} WITH ({_ROOT}{more})")
        refused = self._alter("ADD", fit - (members or set()))
        if watermark_table() in refused:  # without it no mark would ever be met
            raise SourceBusy(refused[watermark_table()].message)
        denied = next((error for error in refused.values() if isinstance(error, SourcePermissionDenied)), None)
        if denied is not None and not members and len(refused) == len(fit):
            raise denied

    def withdraw(self, tables: TableSet) -> None:
        """Remove tables that are no longer selected; only for the reader of the slot."""
        if not self._config.publication:
            members = self._members() or set()
            self._alter("DROP", {table for table in members - {watermark_table()} if table not in tables})

    def add(self, table: TableId) -> None:
        """One that is gone again is left to the log to tell.  TableError; TableBusy while it is locked."""
        if self._config.publication or table in (self._members() or ()):
            return
        match self._alter("ADD", {table}).get(table):
            case None:
                self.added.add(table)
            case TableDisappeared():
                return
            case SourcePermissionDenied() as error:
                raise TableError(error.message, table=str(table), remedy=error.remedy)
            case error:
                raise error

    def missing(self, tables: Collection[TableId]) -> set[TableId]:
        """Those that are to be in the publication and are not."""
        return set() if self._config.publication else set(tables) - (self._members() or set())

    def _alter(self, verb: str, tables: AbstractSet[TableId]) -> dict[TableId, TidemarkError]:
        """What the server has against some of the tables; the others are done (invariant 13).

        Nothing is waited for long.

        After an addition the publication is touched once more: see `barriers`.
        """
        locked = lock_holders(self._connection, self._config.where) if tables else {}
        free = sorted(table for table in tables if table not in locked)
        refused: dict[TableId, TidemarkError] = {
            table: locked_by(table, locked[table]) for table in tables if table in locked
        }
        refused |= self._altered(verb, free)
        for table in [table for table in refused if table in locked and all(one.gives_way for one in locked[table])]:
            del refused[table]
            refused |= self._altered(verb, [table], _FOR_VACUUM)
            free.append(table)
        if verb == "ADD":
            self._touch(free)
        return refused

    def _touch(self, added: Collection[TableId]) -> None:
        """Write a barrier behind the additions (see `snapshot_barriers`).

        Also done for additions still without one: the worker that made them may have died.
        """
        names = (f"({literal(table.database)}, {literal(table.name)})" for table in added)
        additions = ", ".join(names) or "(NULL, NULL)"
        rows = self._rows(
            "SELECT pg_catalog.pg_current_snapshot()::text, COALESCE(d.description, ''), d.xmin::text, ARRAY("
            "SELECT r.xmin::text FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_class c ON c.oid = r.prrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            f"WHERE r.prpubid = p.oid AND ((n.nspname, c.relname) IN ({additions}) OR d.xmin IS NULL "
            "OR pg_catalog.age(r.xmin) < pg_catalog.age(d.xmin))) "
            f"FROM pg_catalog.pg_publication p {_COMMENT} WHERE p.pubname = {literal(self.publication)}"
        )
        if not rows or not rows[0][3]:  # another session has dropped it, or nothing was added
            return
        [[snapshot, before, touched, xids]] = rows
        self._comment(with_barriers(self._words(), before, touched, xids, Snapshot.parse(snapshot)))

    def republished(self) -> None:
        """Remove earlier barriers from the comment: another session has changed how tables are published.

        No table is read before all transactions that are open now have ended.
        """
        self.added.clear()
        if not self._config.publication and self._members() is not None:
            self._comment(self._words())

    def _words(self) -> str:
        return f"Made by Tidemark for {self._replicator}, {time.time_ns()}"

    def _comment(self, text: str) -> None:
        self._run(f"COMMENT ON PUBLICATION {quoted(self.publication)} IS {literal(text)}")

    def _altered(self, verb: str, tables: Sequence[TableId], how: str = _BRIEFLY) -> dict[TableId, TidemarkError]:
        """All at once, or, as long as the server refuses that, in halves.

        ONLY: not what inherits from them, which may be no member.
        """
        if not tables:
            return {}
        names = ", ".join(f"ONLY {_name(table)}" for table in tables)
        where = tables[0] if len(tables) == 1 else self._config.where
        try:
            with translated(where), self._connection.cursor() as cursor:
                cursor.execute(f"{how}; ALTER PUBLICATION {quoted(self.publication)} {verb} TABLE {names}")
        except TidemarkError as error:
            if self._connection.closed:
                raise
            if len(tables) == 1:
                return {tables[0]: error}
            half = len(tables) // 2
            return self._altered(verb, tables[:half]) | self._altered(verb, tables[half:])
        return {}

    def _mend(self) -> None:
        """Repair our publication if another session made it leave out changes; the next observation detects what."""
        version = server_version(self._connection)
        name, stored = literal(self.publication), "AND pubgencols = 's'" if version >= GENERATED_LOGGED else ""
        whole = f"pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot {stored}"
        if self._rows(f"SELECT FROM pg_catalog.pg_publication WHERE pubname = {name} AND NOT ({whole})"):
            more = ", publish_generated_columns = stored" if stored else ""
            self._run(
                f"ALTER PUBLICATION {quoted(self.publication)} SET (publish = 'insert, update, delete, truncate',"
                f" {_ROOT}{more})"
            )
        if version >= FILTERS_SINCE:
            rows = self._rows(
                f"{_MEMBERS} WHERE p.pubname = {name} AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)"
            )
            self._alter("DROP", {TableId(*row) for row in rows})

    def published(self) -> set[TableId]:
        """What the publication names one by one."""
        return self._members() or set()

    def _members(self) -> set[TableId] | None:
        """Return the tables in the publication; None if it does not exist."""
        name = literal(self.publication)
        if not self._rows(f"SELECT FROM pg_catalog.pg_publication WHERE pubname = {name}"):
            return None
        return {TableId(*row) for row in self._rows(f"{_MEMBERS} WHERE p.pubname = {name}")}

    def _check_publication(self) -> None:
        if self._members() is None:
            message = f"The source has no publication {self.publication}."
            raise SourceMisconfigured(
                message, remedy=f"CREATE PUBLICATION {quoted(self.publication)} FOR ALL TABLES WITH ({_ROOT});"
            )

    @property
    def _without_publication(self) -> str:
        """Of a slot that cannot be read: its publication was not there all the time."""
        return f" AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = {literal(self.publication)})"

    def _begin(self, waiting: SourceWait) -> int:
        """Where the slot begins.

        One that is whole stays: a successor's, if our lease has run out, or an earlier attempt's.
        """
        if self._config.slot:
            rows = self._slot_rows()
            create = f"SELECT pg_create_logical_replication_slot({literal(self.slot)}, '{PLUGIN}');"
            if not rows:
                message = f"The source has no replication slot {self.slot}."
                raise SourceMisconfigured(message, remedy=create)
            if rows[0][1] == "lost":
                message = f"The source has invalidated the replication slot {self.slot}: nothing can be read from it."
                again = f"SELECT pg_drop_replication_slot({literal(self.slot)}); {create}"
                raise SourceMisconfigured(message, remedy=again)
            return parse_lsn(rows[0][0])
        rows = self._slot_rows()
        if rows and rows[0][0] is not None and rows[0][1] != "lost":
            return parse_lsn(rows[0][0])
        self._drop(_UNREADABLE)
        return create_slot(self._connection, self._config, self._create_statement(), waiting)

    def _create_statement(self) -> str:
        more = ", failover => true" if server_version(self._connection) >= FAILOVER_SINCE else ""
        return (
            f"SELECT lsn::text FROM pg_catalog.pg_create_logical_replication_slot({literal(self.slot)},"
            f" '{PLUGIN}'{more})"
        )

    def _check(self) -> None:
        rows = self._slot_rows()
        if not rows:
            raise LogPurged(f"The source has no replication slot {self.slot} any more, so its log is lost.")
        if rows[0][1] == "lost":
            raise LogPurged(
                f"The source has invalidated the replication slot {self.slot}: it retained more WAL than "
                "max_slot_wal_keep_size allows."
            )

    def confirmed(self) -> int:
        """Return the position that the slot has confirmed.  LogPurged if the slot is gone."""
        self._check()
        return parse_lsn(self._slot_rows()[0][0])

    def release(self) -> None:
        """End another reader of our slot: there is one lease, and we hold it."""
        rows = self._rows(
            "SELECT pg_catalog.pg_terminate_backend(s.active_pid) FROM pg_catalog.pg_replication_slots s "
            f"WHERE s.slot_name = {literal(self.slot)} AND s.active_pid IS NOT NULL"
        )
        if rows:
            time.sleep(0.1)

    def _drop(self, condition: str = "") -> bool:
        """Drop the slot, if necessary after ending its reader; False if there is no such slot."""
        deadline = time.monotonic() + LEAVE_SECONDS
        while True:
            try:
                dropped = self._rows(
                    "SELECT pg_catalog.pg_drop_replication_slot(s.slot_name)::text FROM"
                    f" pg_catalog.pg_replication_slots s WHERE s.slot_name = {literal(self.slot)} AND s.plugin ="
                    f" '{PLUGIN}'{condition}"
                )
            except TidemarkError:
                if time.monotonic() > deadline:
                    raise
                with suppress(SourceError):
                    self.release()
            else:
                return bool(dropped)

    def _slot_rows(self) -> list[tuple[str, str | None]]:
        return self._rows(
            "SELECT s.confirmed_flush_lsn::text, s.wal_status FROM pg_catalog.pg_replication_slots s "
            f"WHERE s.slot_name = {literal(self.slot)} AND s.plugin = '{PLUGIN}'"
        )

    def _run(self, statement: str) -> None:
        with translated(self._config.where), self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return read_rows(self._connection, sql, self._config.where)


def check_published(cursor: Any, publication: str, table: TableId, oid: int, evidence: str, *, ours: bool) -> str:
    """How the table is `published`.

    Raises TableBusy where rows of it must not be read yet: its log may lack what a transaction wrote.

    `cursor` is in the snapshot that `evidence` names, which must be beyond the barrier of the table's addition (see
    `barriers`); in a publication that the user keeps, beyond the addition itself.
    """
    version = cursor.connection.server_version
    cursor.execute(
        f"SELECT p.puballtables, r.xmin::text, d.xmin::text, COALESCE(d.description, ''), {sound(version, ours=ours)},"
        f" {published(version, ours=ours)} FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_class c ON c.oid = %s"
        f" LEFT JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = c.oid {_COMMENT} WHERE"
        " p.pubname = %s",
        (oid, publication),
    )
    rows = cursor.fetchall()
    snapshot = Snapshot.parse(evidence)
    if not rows:
        raise TableBusy(f"The publication {publication} does not exist yet.")
    whole, added, touched, comment, is_sound, how = rows[0]
    if not whole and added is None and not _by_schema(cursor, publication, oid):
        held = lock_holders(cursor.connection, publication).get(table)
        raise locked_by(table, held) if held else TableBusy(f"{table} is not in the publication {publication} yet.")
    if not is_sound:
        message = (
            f"The publication {publication} excludes some changes of {table} (operations, rows, columns or partitions)."
        )
        remedy = "Publish all of them; the connection test shows the SQL."
        raise TableBusy(message, table=str(table), remedy=remedy)
    barrier = whole_from(added, touched, comment, snapshot)
    if barrier is not None and barrier >= snapshot.xmin:
        open_ones = writing(cursor.connection, publication)
        message = (
            f"{table} waits: transactions that began before it was published are still open on the source:"
            f" {listed(open_ones)}."
        )
        raise TableBusy(
            message, table=str(table), remedy=f"{TableBusy.default_remedy} SQL that ends them:\n{endings(open_ones)}"
        )
    return str(how)


def _by_schema(cursor: Any, publication: str, oid: int) -> bool:
    """Tables of a schema that is published as a whole (from 15), or of partitions.

    The view, from 16 on, waits for locks of all its tables.
    """
    if server_version(cursor.connection) >= SCHEMAS_SINCE:
        cursor.execute(
            "SELECT FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_namespace s ON s.pnpubid = p.oid "
            "JOIN pg_catalog.pg_class c ON c.relnamespace = s.pnnspid WHERE p.pubname = %s AND c.oid = %s",
            (publication, oid),
        )
        if cursor.rowcount:
            return True
    cursor.execute(
        "SELECT FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname JOIN"
        " pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename WHERE t.pubname = %s AND c.oid"
        " = %s",
        (publication, oid),
    )
    return bool(cursor.rowcount)


def _name(table: TableId) -> str:
    return f"{quoted(table.database)}.{quoted(table.name)}"
