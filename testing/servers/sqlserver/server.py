"""`python -m testing.servers.sqlserver.server CONFIG`: the server, for the Postgres that the file CONFIG names."""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from testing.servers.sqlserver.cdc.capture import CaptureJob
from testing.servers.sqlserver.commands import native
from testing.servers.sqlserver.database.connection import Cancelled, Connection, LoginFailed
from testing.servers.sqlserver.database.setup import MODEL, prepare
from testing.servers.sqlserver.procedures import Prepared
from testing.servers.sqlserver.refusals import Refusal, refused_replica
from testing.servers.sqlserver.security import postgres_name
from testing.servers.sqlserver.session import Session, Surroundings
from testing.servers.sqlserver.wire import login, packets, tokens
from testing.servers.sqlserver.wire.packets import Channel, Gone
from testing.servers.sqlserver.wire.parameters import UnknownType, calls

_CAPTURED = "SELECT datname FROM pg_database WHERE shobj_description(oid, 'pg_database') LIKE '%\"cdc\"%'"


class Server:
    """config: host, port, postgres (an administrator's address), encrypt ("on", "off"), certificate, key (files),
    capture_seconds; replica: a file with what it says as a replica of an availability group.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.postgres: dict[str, Any] = dict(config["postgres"])
        self._versions: dict[str, int] = {}
        self._lock, self._changing = threading.Lock(), threading.Lock()
        self._numbers = itertools.count(51)
        self._jobs: dict[str, CaptureJob] = {}
        self._dropped: set[str] = set()  # databases that no job is begun for
        self._clients: dict[int, socket.socket] = {}
        self._flags: dict[str, tuple[int, dict[str, Any]]] = {}
        self.secondary = self.replica["role"] == "secondary"
        self._tls: ssl.SSLContext | None = None
        if config["encrypt"] == "on":
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.maximum_version = ssl.TLSVersion.TLSv1_2  # what servers before 2022 speak
            self._tls.load_cert_chain(config["certificate"], config["key"])

    # Databases

    def admin(self, database: str) -> psycopg.Connection[Any]:
        """An administrator's connection."""
        return psycopg.connect(**{**self.postgres, "dbname": database}, autocommit=True)

    @property
    def replica(self) -> dict[str, Any]:
        """See `AvailabilityGroup.states`."""
        file = Path(self.config["replica"])
        return dict(json.loads(file.read_text())) if file.exists() else {"role": ""}

    def version(self, connection: Connection) -> int:
        """Of the definitions of its database; nothing but redo tells a secondary of them."""
        if self.secondary:
            return int(connection.query("SELECT pg_last_wal_replay_lsn() - '0/0'::pg_lsn")[0][0])
        return self._versions.get(connection.database, 0)

    def changed(self, what: str) -> None:
        """Definitions of a database; or with + and - a database is made or dropped, with ! a session is ended."""
        if what.startswith("+"):
            self._create(what[1:])
        elif what.startswith("-"):
            self._drop(what[1:])
        elif what.startswith("!"):
            with suppress(OSError, KeyError):
                self._clients[int(what[1:])].shutdown(socket.SHUT_RDWR)
        else:
            with self._lock:
                self._versions[what] = self._versions.get(what, 0) + 1

    def flags(self, connection: Connection) -> dict[str, Any]:
        """Of the connection's database."""
        version = self.version(connection)
        known = self._flags.get(connection.database)
        if known is None or known[0] != version:
            rows = connection.query(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
            )
            known = self._flags[connection.database] = (version, json.loads(rows[0][0] or "{}"))
        return known[1]

    def _create(self, name: str) -> None:
        with self.admin("postgres") as admin:
            if admin.execute("SELECT FROM pg_database WHERE lower(datname) = lower(%s)", (name,)).fetchone():
                raise Refusal(1801, f"Database '{name}' already exists. Choose a different database name.")
            target = sql.Identifier(name)
            self._dropped.discard(name)
            with self._lock:
                admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(target, sql.Identifier(MODEL)))
            admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(target))

    def _drop(self, name: str) -> None:
        with self._changing:
            self._dropped.add(name)  # so that no job begins beside this
            job = self._jobs.pop(name, None)
        if job is not None:
            job.stop()
        with self.admin("postgres") as admin:
            rows = admin.execute(
                "SELECT datname, oid FROM pg_database WHERE lower(datname) = lower(%s)", (name,)
            ).fetchall()
            if not rows:
                raise Refusal(
                    3701,
                    f"Cannot drop the database '{name}', because it does not exist or you do not have permission.",
                    11,
                )
            admin.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = %s AND active",
                (rows[0][0],),
            )
            while admin.execute(
                "SELECT FROM pg_replication_slots WHERE database = %s AND active", (rows[0][0],)
            ).fetchone():
                time.sleep(0.02)
            admin.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                (rows[0][0],),
            )
            admin.execute(sql.SQL("DROP DATABASE {} (FORCE)").format(sql.Identifier(rows[0][0])))

    # Running

    def run(self) -> None:
        """Until the process ends."""
        if not self.secondary:
            prepare(self.admin)
            threading.Thread(target=self._watch, daemon=True).start()
        with socket.create_server((self.config["host"], self.config["port"]), backlog=100) as listener:
            print("listening", flush=True)
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._client, args=(client,), daemon=True).start()

    def _watch(self) -> None:
        """A capture job for each database that has CDC."""
        ended, admin = threading.Event(), None
        while not ended.wait(self.config["capture_seconds"]):
            try:
                admin = admin or self.admin("postgres")
                rows = admin.execute(_CAPTURED).fetchall()
            except psycopg.Error:
                admin = None
                continue
            wanted = {name for (name,) in rows}
            with self._changing:
                for name in wanted - self._jobs.keys() - self._dropped:
                    self._jobs[name] = CaptureJob(name, partial(self.admin, name), self.config["capture_seconds"])
                    self._jobs[name].start()
            for name in self._jobs.keys() - wanted:
                if (job := self._jobs.pop(name, None)) is not None:
                    job.stop()

    def _client(self, client: socket.socket) -> None:
        spid = next(self._numbers)
        self._clients[spid] = client
        try:
            with client:
                Client(self, Channel(client), spid).run()
        except (Gone, OSError, struct.error, ConnectionError) as error:
            if not isinstance(error, Gone):
                print(f"session {spid}: {type(error).__name__}: {error}", flush=True)
        except Exception as error:  # noqa: BLE001 - one client's trouble
            import traceback

            traceback.print_exception(error)
            sys.stderr.flush()
        finally:
            self._clients.pop(spid, None)

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls


class Client:
    """One connection, from PRELOGIN on."""

    def __init__(self, server: Server, channel: Channel, spid: int) -> None:
        self.server, self.channel, self.spid = server, channel, spid
        self.login: login.Login | None = None

    def run(self) -> None:
        """Gone when the client has."""
        kind, _, payload = self.channel.message()
        if kind != packets.PRELOGIN:
            raise Gone("no PRELOGIN")
        wanted = login.wants_encryption(payload)
        tls = self.server.tls
        offer = packets.ENCRYPT_NOT_SUPPORTED
        if tls is not None and wanted != packets.ENCRYPT_NOT_SUPPORTED:
            offer = packets.ENCRYPT_OFF if wanted == packets.ENCRYPT_OFF else packets.ENCRYPT_ON
        self.channel.add(login.prelogin(offer))
        self.channel.end()
        if tls is not None and offer != packets.ENCRYPT_NOT_SUPPORTED:
            self.channel.encrypt(tls)
        kind, _, payload = self.channel.message()
        if offer == packets.ENCRYPT_OFF:  # the login alone is in TLS
            self.channel.decrypt()
        if kind != packets.LOGIN:
            raise Gone("no LOGIN7")
        self.login = login.parsed(payload)
        session = self._let_in()
        if session is None:
            return
        try:
            self._serve(session)
        finally:
            with suppress(Exception):
                session.connection.close()

    def _let_in(self) -> Session | None:
        assert self.login is not None
        database = self.login.database or "master"
        try:
            if self._routed(database):
                return None
            connection = self._connect(database)
            connection.named(self.spid, encrypted=self.channel.encrypted)
            session = Session(self.channel, connection, self._around(), self.spid, native)
        except Refusal as refusal:
            if refusal.number != 18456:
                self.channel.add(tokens.message(refusal.number, refusal.message, level=refusal.level))
            self.channel.add(tokens.message(18456, f"Login failed for user '{self.login.user}'.", level=14))
            self.channel.add(tokens.done(tokens.FAILED))
            self.channel.end()
            return None
        self.channel.add(tokens.acknowledged(self.login.packet_size, connection.database) + tokens.done(0))
        self.channel.end()
        self.channel.size = self.login.packet_size
        return session

    def _around(self) -> Surroundings:
        server = self.server
        return Surroundings(self._connect, server.flags, server.version, server.changed, server.secondary)

    def _routed(self, database: str) -> bool:
        """Has the client been sent to another replica?  Refusal 976, 978, 982, 983 ("Database Engine events and
        errors"; "Configure read-only routing for an Always On availability group").
        """
        assert self.login is not None
        told = self.server.replica
        if database == "master" or not told["role"]:
            return False
        if refusal := refused_replica(told, database, read_only=self.login.read_only):
            raise refusal
        if self.login.read_only and (route := told.get("route")):
            self.channel.add(tokens.acknowledged(self.login.packet_size, database))
            self.channel.add(tokens.routed(*route) + tokens.done(0))
            self.channel.end()
            return True
        return False

    def _connect(self, database: str) -> Connection:
        """As the login; Refusal 18456, 4060."""
        assert self.login is not None
        name = postgres_name(self.login.user)
        address = {**self.server.postgres, "user": name, "password": self.login.password}
        with self.server.admin("postgres") as admin:
            row = admin.execute(
                "SELECT datname FROM pg_database WHERE lower(datname) = lower(%s) AND datname NOT IN ('postgres',"
                " 'template0', 'template1')",
                (database,),
            ).fetchone()
        try:
            if row is None:
                Connection({**address, "dbname": "master"}).close()
                raise Refusal(4060, f'Cannot open database "{database}" requested by the login. The login failed.', 11)
            return Connection({**address, "dbname": row[0]}, self.channel.attention)
        except LoginFailed as failed:
            if "permission denied for database" in str(failed):
                raise Refusal(
                    4060, f'Cannot open database "{database}" requested by the login. The login failed.', 11
                ) from None
            raise Refusal(18456, f"Login failed for user '{self.login.user}'.", 14) from failed

    # Requests

    def _serve(self, session: Session) -> None:
        prepared = Prepared()
        while True:
            kind, status, payload = self.channel.message()
            try:
                if status & packets.RESET:
                    session.reset()
                self._request(session, prepared, kind, payload)
            except Cancelled:
                session.cancelled()

    def _request(self, session: Session, prepared: Prepared, kind: int, payload: bytes) -> None:
        if kind == packets.ATTENTION:
            session.cancelled()
        elif kind == packets.BATCH:
            session.run(_without_headers(payload).decode("utf-16-le"))
            session.finish()
        elif kind == packets.RPC:
            try:
                for one in calls(_without_headers(payload)):
                    prepared.rpc(session, one)
            except UnknownType as error:
                session.told(
                    Refusal(
                        8009,
                        "The incoming tabular data stream (TDS) remote procedure call (RPC) protocol stream is not"
                        f" known here: {error}.",
                    )
                )
            session.finish()
        elif kind == packets.TRANSACTION:
            self._transaction(session, _without_headers(payload))
        else:
            raise Gone(f"a packet of kind {kind}")

    def _transaction(self, session: Session, payload: bytes) -> None:
        """TM_BEGIN_XACT, TM_COMMIT_XACT, TM_ROLLBACK_XACT ([MS-TDS] 2.2.6.9)."""
        (request,) = struct.unpack_from("<H", payload)
        try:
            if request == 5:
                level = {
                    1: "READ UNCOMMITTED",
                    2: "READ COMMITTED",
                    3: "REPEATABLE READ",
                    4: "SERIALIZABLE",
                    5: "SNAPSHOT",
                }.get(payload[2])
                session.state.isolation = level or session.state.isolation
                session.begin()
            elif request == 7:
                session.commit()
                self._again(session, payload, 3 + payload[2])
            elif request == 8:
                if session.state.depth:
                    session.rollback()
                self._again(session, payload, 3 + payload[2])
            else:
                raise Refusal(  # noqa: TRY301
                    3970, f"The transaction manager request {request} is not known to the emulator."
                )
        except Refusal as refusal:
            session.told(refusal)
        session.finish()

    def _again(self, session: Session, payload: bytes, at: int) -> None:
        """Does the next transaction begin at once?"""
        if len(payload) > at and payload[at] & 1:
            session.begin()


def _without_headers(payload: bytes) -> bytes:
    """ALL_HEADERS stands first."""
    (size,) = struct.unpack_from("<I", payload)
    return payload[size:]


if __name__ == "__main__":
    Server(json.loads(Path(sys.argv[1]).read_text())).run()
