"""Two of the emulator's servers as an availability group: a primary replica, and a readable secondary.

The secondary runs over a standby of Postgres, so its redo is a real one: it trails, can be paused, and shows commits
in the order of the log ("Offload read-only workload to secondary replica of an Always On availability group").  Both
ports stay the same across failovers: one is the listener's (the primary), the other one the secondary's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg2

from testing.servers.sqlserver.embedded import EmbeddedSQLServer
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.embedded.processes import ServerFailed

SLOT = "replica"
PATIENCE_SECONDS = 60.0
_NOT_COPIED = ("pg_wal", "pg_replslot", "pg_stat_tmp", "pg_dynshmem", "pg_notify", "pg_subtrans")
_CAPTURED = "SELECT datname, oid FROM pg_database WHERE shobj_description(oid, 'pg_database') LIKE '%\"cdc\"%'"


class AvailabilityGroup:
    """To others it is the server that its listener leads to.  One thread, which stays: servers end with it."""

    def __init__(self, primary: EmbeddedSQLServer, *, port: int | None = None) -> None:
        """`primary` need not be started.  port: of the secondary."""
        self.primary = primary
        self.host, self.port, self.folder, self.user = primary.host, primary.port, primary.folder, primary.user
        self.address, self.connect = primary.address, primary.connect
        self._made, self._durable = 0, primary.durable
        self.secondary = EmbeddedSQLServer(
            primary.folder / "secondary", port, encrypt=primary.encrypt, capture_seconds=primary.capture_seconds
        )

    @property
    def running(self) -> bool:
        servers = (self.primary, self.primary.postgres, self.secondary, self.secondary.postgres)
        return all(one.running for one in servers)

    def start(self) -> None:
        """Both, with a secondary made where there is none."""
        if not self.primary.running:
            self.primary.start()
        if not self._made:
            self.renew()
        elif not self.secondary.running:
            self.secondary.start()

    def renew(self) -> None:
        """Another secondary, from a backup of the primary, that has redone all there is; databases with change data
        capture can be failed over from here on.
        """
        if self._made:
            self.secondary.stop(signal.SIGKILL)
            shutil.rmtree(self.secondary.postgres.folder, ignore_errors=True)
        self.secondary.folder.mkdir(parents=True, exist_ok=True)
        standby = self._standby()
        _back_up(self.primary.postgres, standby)
        self.secondary.postgres = standby
        self.states(secondary={"role": "secondary"}, primary={"role": "primary"})
        self.secondary.start()
        self.join()

    def join(self) -> None:
        """Add the databases created since then, too (ALTER AVAILABILITY GROUP … ADD DATABASE).

        For each database with change data capture the secondary has its own logical slot, which outlives a promotion:
        the new primary's capture job reads what the old primary's had not read.
        """
        self.caught_up()
        for name, oid in _rows(self.primary.postgres, "postgres", _CAPTURED):
            _slot(self.primary.postgres, self.secondary.postgres, name, f"cdc_{oid}")

    def states(self, *, primary: dict[str, Any] | None = None, secondary: dict[str, Any] | None = None) -> None:
        """What the replicas say to those who log in.

        role: primary, secondary or resolving (error 983).  allow, of a secondary: all (default), read_only (978 for
        others) or no (976).  route, of the primary: host and port to which it sends those with read-only intent; false:
        there is none (982).
        """
        for server, told in ((self.primary, primary), (self.secondary, secondary)):
            if told is not None:
                server.replica.touch(mode=0o600)
                server.replica.write_text(json.dumps(told))

    # Redo

    @contextmanager
    def held(self) -> Iterator[None]:
        """The secondary redoes nothing meanwhile, unless it is promoted."""
        server = self.secondary.postgres
        _run(server, "SELECT pg_wal_replay_pause()")
        _until(lambda: _one(server, "SELECT pg_get_wal_replay_pause_state()") == "paused")
        try:
            yield
        finally:
            with suppress(psycopg2.Error):  # it is promoted, or gone
                _run(server, "SELECT pg_wal_replay_resume()")

    def caught_up(self) -> None:
        """Returns when what the primary has now is seen on the secondary."""
        end = _one(self.primary.postgres, "SELECT pg_current_wal_lsn()::text")
        _until(lambda: _one(self.secondary.postgres, f"SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn"))

    def suspend(self) -> None:
        """The secondary gets no log any more (ALTER DATABASE … SET HADR SUSPEND): a failover loses what comes."""
        _run(self.secondary.postgres, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        _until(lambda: _one(self.secondary.postgres, "SELECT count(*) FROM pg_stat_wal_receiver") == 0)

    # Failover

    def diverge(self) -> None:
        """Promote the secondary on its own: from here on its history differs from the primary's."""
        self.secondary.stop_sessions()
        _promote(self.secondary.postgres)
        self.states(secondary={"role": "primary"})
        self.secondary.start()

    def failover(self, *, jobs: bool = True) -> None:
        """Make the secondary the primary, with all the log it has received; it has no secondary until `renew`.

        jobs: its server already has the jobs of change data capture; they are in msdb, a database of each server
        ("sys.sp_cdc_add_job"; "Replication, change tracking, & change data capture - Always On availability groups").
        """
        old, new = self.primary.postgres, self.secondary.postgres
        self.secondary.stop_sessions()
        self.primary.stop_sessions()
        old.stop()  # waits until a standby that is there has got all
        if _one(new, "SELECT pg_is_in_recovery()"):
            _promote(new)
        self.primary.postgres, self.secondary.postgres = new, old
        if not jobs:
            for name, _ in _rows(new, "postgres", _CAPTURED):
                _run(new, "DELETE FROM ss.jobs", database=name)
        self.states(primary={"role": "primary"}, secondary={"role": "resolving"})
        self.primary.start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Both."""
        self.secondary.stop(how)
        self.primary.stop(how)

    def restart(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Both, with what they have."""
        self.stop(how)
        self.start()

    def _standby(self) -> EmbeddedPostgresSource:
        self._made += 1
        options = {
            "deadlock_timeout": "200ms", "primary_slot_name": SLOT, "hot_standby_feedback": "on",
            "max_standby_streaming_delay": "-1", "wal_receiver_status_interval": "1s",
        }  # fmt: skip
        folder = self.primary.postgres.folder.with_name(f"replica{self._made}")  # where its user can walk to
        made = EmbeddedPostgresSource(folder, durable=self._durable, options=options)
        made.database = "postgres"
        return made


def _until(done: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(psycopg2.OperationalError):  # a server that was killed is started again
            if done():
                return
        time.sleep(0.02)
    raise ServerFailed("The availability group does not come to rest.")


def _promote(server: EmbeddedPostgresSource) -> None:
    _run(server, "SELECT pg_wal_replay_resume()", "SELECT pg_promote()")
    _until(lambda: not _one(server, "SELECT pg_is_in_recovery()"))


def _back_up(primary: EmbeddedPostgresSource, standby: EmbeddedPostgresSource) -> None:
    """The primary's files while it runs, as a standby's."""
    data, copy = primary.folder / "data", standby.folder / "data"
    standby.folder.mkdir(parents=True)
    with closing(primary.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_replication_slots WHERE slot_name = %s", (SLOT,))
        if cursor.fetchone() is None:
            cursor.execute("SELECT pg_create_physical_replication_slot(%s, true)", (SLOT,))
        cursor.execute("SELECT pg_backup_start('replica', true)")
        subprocess.run(["/bin/cp", "-a", data, copy], check=False, stderr=subprocess.DEVNULL)  # some files go
        cursor.execute("SELECT labelfile FROM pg_backup_stop(false)")
        (label,) = cursor.fetchone() or ("",)
    for name in _NOT_COPIED:
        for path in (copy / name).iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in ("postmaster.pid", "postmaster.opts"):
        (copy / name).unlink(missing_ok=True)
    told = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password}"
    told = f"primary_conninfo = '{told}'\n"
    for name, text in (("backup_label", label), ("standby.signal", ""), ("postgresql.auto.conf", told)):
        path = copy / name
        path.write_text(text)
        owner = (copy / "PG_VERSION").stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _slot(primary: EmbeddedPostgresSource, standby: EmbeddedPostgresSource, database: str, slot: str) -> None:
    """Of the standby; returns when the primary's capture job, if it has one, has read what comes before it."""
    if not _one(standby, f"SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}'"):
        ended = threading.Event()
        helper = threading.Thread(target=_log_snapshots, args=(primary, ended))
        helper.start()
        try:
            _run(standby, f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')", database=database)
        finally:
            ended.set()
            helper.join()
    place = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = "
    begun = _one(standby, f"{place}'{slot}'")

    def read() -> bool:
        if not _rows(primary, database, "SELECT FROM ss.jobs WHERE kind = 'capture'"):
            return True
        _run(primary, "SELECT pg_logical_emit_message(true, 'joined', '')", database=database)
        return bool(_one(primary, f"{place}'{slot}'") >= begun)

    _until(read)


def _log_snapshots(primary: EmbeddedPostgresSource, ended: threading.Event) -> None:
    """A slot of a standby begins where the primary's log tells which transactions run."""
    with closing(primary.connect()) as connection, connection.cursor() as cursor:
        while not ended.wait(0.05):
            cursor.execute("SELECT pg_log_standby_snapshot()")


def _run(server: EmbeddedPostgresSource, *statements: str, database: str = "postgres") -> None:
    with closing(server.connect(dbname=database)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _rows(server: EmbeddedPostgresSource, database: str, sql: str) -> list[tuple[Any, ...]]:
    with closing(server.connect(dbname=database)) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _one(server: EmbeddedPostgresSource, sql: str) -> Any:
    return _rows(server, "postgres", sql)[0][0]
