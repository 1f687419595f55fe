"""A stand-in for Amazon Redshift, for tests: Postgres behind a proxy that Amazon's own client takes for Redshift.

What is as there: the protocol, transactions that conflict (error 1023), no keys, definitions in transactions,
backslashes in quotes, COPY of Parquet files by the columns' places.  What is not: the SQL engine and all of its limits.
A test says what goes wrong with a statement (`EmbeddedRedshift.meet`).
"""

from __future__ import annotations

import io
import re
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import boto3
import pyarrow.parquet as pq

from replicator.targets.postgres.copy_text import encoded
from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.postgres_source import EmbeddedPostgresSource

ROLE = "arn:aws:iam::123456789012:role/redshift"  # that may read the bucket
SSL_REQUEST, CANCEL = 80877103, 80877102
HEAD = 5  # bytes before a message's body: kind and length
DATABASE = "warehouse"
OWN = ("user", "database", "application_name")  # parameters that Postgres knows, too
OPTIONS = (
    "-c standard_conforming_strings=off -c escape_string_warning=off -c default_transaction_isolation=serializable"
    " -c idle_in_transaction_session_timeout=60s"
)
SET_UP = """
    DO $$ BEGIN
        CREATE DOMAIN varbyte AS bytea CHECK (octet_length(VALUE) <= 1024000);
    EXCEPTION WHEN duplicate_object THEN NULL; END $$;
    CREATE OR REPLACE FUNCTION from_hex(text) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$ SELECT decode($1, 'hex') $$;
    CREATE OR REPLACE VIEW svv_table_info AS SELECT n.nspname::text AS "schema", c.relname::text AS "table",
        pg_relation_size(c.oid) / 1048576 + 1 AS size FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace;
"""
_COPY = re.compile(
    r"COPY (?P<table>.+) FROM '(?P<url>s3://[^']+)'"
    r" (?:IAM_ROLE (?P<role>default|'[^']*')|CREDENTIALS '(?P<keys>[^']*)') FORMAT AS PARQUET"
)
_REWRITTEN = (
    (re.compile(r"^(CREATE TABLE .*\)) (?:DISTKEY \(.*\) SORTKEY \(.*\)|DISTSTYLE ALL)$", re.DOTALL), r"\1"),
    (re.compile(r"\bVARBYTE\(\d+\)"), "varbyte"),
    (re.compile(r"^SET enable_case_sensitive_identifier"), "SET redshift.enable_case_sensitive_identifier"),
)
CUT, LOST, FULL = "cut", "lost", "full"
_FULL = "DO $$ BEGIN RAISE EXCEPTION 'connection limit reached' USING ERRCODE = '53300'; END $$"
_SASL = struct.pack("!i", 10)
_CONFLICT = b"SERROR\0CXX000\0M1023\0DSerializable isolation violation on table\0\0"


class EmbeddedRedshift:
    """One server on loopback.  host, port: of the proxy; `postgres`: the server behind it, for faults.

    meet: asked of each statement before it is done, by threads; CUT: the connection breaks; LOST: it does once the
    statement is done, whose answer is not given; FULL: the server has no room for it; else it is done.
    """

    def __init__(self, postgres: EmbeddedPostgresSource, store: Mapping[str, str]) -> None:
        """store: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY of the role's way to the bucket."""
        self.postgres, self.database = postgres, DATABASE
        self.host, self.port = LOOPBACK, free_port()
        self._store = store
        self.meet: Callable[[str], str] = lambda _: ""
        self._listener: socket.socket | None = None

    @property
    def user(self) -> str:
        return self.postgres.user

    @property
    def password(self) -> str:
        return self.postgres.password

    def connect(self, **more: Any) -> Any:
        """Straight to Postgres, by psycopg2."""
        return self.postgres.connect(**{"dbname": self.database, **more})

    def settings(self, bucket: str, **more: str) -> dict[str, str]:
        """Of a destination.  bucket: s3://bucket/prefix."""
        return {
            "host": self.host, "port": str(self.port), "database": self.database, "user": self.user,
            "password": self.password, "tls": "disable", "staging": bucket, "load": "role", "iam_role": ROLE,
            "credentials": "keys", "access_key_id": self._store["AWS_ACCESS_KEY_ID"],
            "secret_access_key": self._store["AWS_SECRET_ACCESS_KEY"],
            "store_endpoint": self._store["AWS_ENDPOINT_URL"], **more,
        }  # fmt: skip

    def start(self) -> None:
        """Of the proxy, on the same port ever; Postgres has to run."""
        with closing(self.postgres.connect()) as db, db.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (self.database,))
            if cursor.fetchone() is None:
                cursor.execute(f"CREATE DATABASE {self.database}")
        with closing(self.connect()) as db, db.cursor() as cursor:
            cursor.execute(SET_UP)
        if self._listener is None:
            self._listener = socket.create_server((self.host, self.port))
            threading.Thread(target=self._serve, args=(self._listener,), name="redshift", daemon=True).start()

    def stop(self) -> None:
        """Of the proxy."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def _connection(self, client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            head = _exactly(client, 8)
            length, code = struct.unpack("!ii", head)
            rest = _exactly(client, length - 8)
            if code == SSL_REQUEST:
                client.sendall(b"N")
                return
            with socket.create_connection((self.postgres.host, self.postgres.port)) as server:
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server.sendall(head + rest if code == CANCEL else _start_up(code, rest))
                link = _Link(self)
                back = threading.Thread(target=_pump, args=(server, client, link.told), daemon=True)
                back.start()
                try:
                    _pump(client, server, link.asked)
                finally:
                    for path in link.files:
                        path.unlink(missing_ok=True)
                back.join(10)

    def rewritten(self, sql: str, files: list[Path]) -> str:
        """Redshift's SQL as Postgres takes it.  files: of the connection's last COPY."""
        if match := _COPY.fullmatch(sql):
            while files:
                files.pop().unlink(missing_ok=True)
            try:
                return f"COPY {match['table']} FROM '{self._fetched(match, files)}'"
            except Exception as error:  # noqa: BLE001 - the client gets any error as an answer
                text = re.sub(r"[^\w .:/-]", " ", f"{type(error).__name__}: {error}")[:200]
                return f"DO $$ BEGIN RAISE EXCEPTION 'S3ServiceException: {text}' USING ERRCODE = 'XX000'; END $$"
        for pattern, by in _REWRITTEN:
            sql = pattern.sub(by, sql)
        return sql

    def _fetched(self, match: re.Match[str], files: list[Path]) -> Path:
        """The file of the bucket, as a file that Postgres reads."""
        if match["role"] not in (None, "default", f"'{ROLE}'"):
            raise PermissionError("Access Denied")
        key, secret = self._store["AWS_ACCESS_KEY_ID"], self._store["AWS_SECRET_ACCESS_KEY"]
        if match["keys"] is not None:
            given = dict(part.split("=", 1) for part in match["keys"].split(";"))
            key, secret = given["aws_access_key_id"], given["aws_secret_access_key"]
        store = boto3.Session(key, secret, region_name="us-east-1").client(
            "s3", endpoint_url=self._store["AWS_ENDPOINT_URL"]
        )
        bucket, _, path = match["url"].removeprefix("s3://").partition("/")
        rows = pq.read_table(io.BytesIO(store.get_object(Bucket=bucket, Key=path)["Body"].read()))
        with tempfile.NamedTemporaryFile("wb", dir=self.postgres.folder, suffix=".copy", delete=False) as file:
            files.append(Path(file.name))
            for lines in encoded(rows, match["table"]):
                file.write(lines)
        files[-1].chmod(0o644)
        return files[-1]


class _Link:
    """Rewrites one connection's messages.  A client sends a statement only after the server has reported ready."""

    def __init__(self, server: EmbeddedRedshift) -> None:
        self.files: list[Path] = []
        self._server, self._met, self._done = server, "", False

    def asked(self, kind: bytes, body: bytes) -> bytes:
        """Rewrite a client's message: P parses a statement, and a later E executes it."""
        if kind == b"P":
            name, sql, types = body.split(b"\0", 2)
            self._met, self._done = self._server.meet(sql.decode()), False
            if self._met == CUT:
                raise OSError(CUT)
            taken = _FULL if self._met == FULL else self._server.rewritten(sql.decode(), self.files)
            return b"\0".join((name, taken.encode(), types))
        self._done = self._done or kind == b"E"
        return body

    def told(self, kind: bytes, body: bytes) -> bytes:
        """Rewrite a server's message: errors as Redshift words them; SASL mechanisms without a terminator.

        The client would take the terminator for a mechanism.
        """
        if kind == b"Z" and self._done and self._met == LOST:
            raise OSError(LOST)
        if kind == b"R" and body.startswith(_SASL):
            return body[:-1]
        return _CONFLICT if kind == b"E" and b"C40001\0" in body else body


def _start_up(code: int, rest: bytes) -> bytes:
    """Without what Postgres does not know."""
    words = rest.split(b"\0")
    given = dict(zip(words[::2], words[1::2], strict=False))
    kept = {name.encode(): given[name.encode()] for name in OWN if name.encode() in given}
    body = b"".join(name + b"\0" + value + b"\0" for name, value in {**kept, b"options": OPTIONS.encode()}.items())
    return struct.pack("!ii", len(body) + 9, code) + body + b"\0"


def _pump(source: socket.socket, sink: socket.socket, change: Callable[[bytes, bytes], bytes]) -> None:
    """Messages one way, until a side goes."""
    waiting = bytearray()
    with suppress(OSError):
        while chunk := source.recv(1 << 16):
            waiting += chunk
            whole, at = bytearray(), 0
            while len(waiting) - at >= HEAD:
                (length,) = struct.unpack_from("!i", waiting, at + 1)
                end = at + 1 + length
                if len(waiting) < end:
                    break
                kind = bytes(waiting[at : at + 1])
                body = change(kind, bytes(waiting[at + 5 : end]))
                whole += kind + struct.pack("!i", len(body) + 4) + body
                at = end
            del waiting[:at]
            sink.sendall(whole)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _exactly(client: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        if not (chunk := client.recv(size - len(found))):
            raise OSError("the client has gone")
        found += chunk
    return bytes(found)
