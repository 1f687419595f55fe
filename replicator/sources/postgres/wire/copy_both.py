"""The copy-both stream of a replication connection by psycopg 3: whole messages, and only the feedback that we mean.

psycopg2's own `read_message` automatically confirms the position of a keepalive once all before it was confirmed.  The
slot is then ahead of our checkpoint, and a slot that another client has advanced cannot be distinguished from ours.
Here a position is confirmed when the journal has it, and only then (invariant 1).  `psycopg.pq` gives libpq's functions
as they are. https://www.postgresql.org/docs/current/libpq-copy.html https://www.psycopg.org/psycopg3/docs/api/pq.html
"""

from __future__ import annotations

import select
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from replicator.errors import SourceUnreachable, TidemarkError
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import NEWER_SETTINGS, libpq_options, server_error, tidemark_error
from replicator.sources.postgres.wire.message_buffer import COPY_DATA, HEAD, SEND_SECONDS, MessageBuffer

LogConnection: TypeAlias = "psycopg.Connection[Any]"

_HEAD = struct.Struct(">Bi")
_MAX_BYTES = 1 << 20  # bytes that are taken at once, but for a message that is larger


def connect_log(config: PostgresConfig, **overrides: Any) -> LogConnection:
    """A connection that may read the log, with SESSION_SETTINGS.

    `overrides` are options of libpq.  Raises as `connection.connect`.
    """
    with libpq_options(config) as options:
        try:
            connection = psycopg.connect(autocommit=True, **(options | {"replication": "database"} | overrides))
        except psycopg.Error as error:
            raise tidemark_error(error, config.where) from None  # its text may hold what the user typed (invariant 8)
    for since, statement in NEWER_SETTINGS:
        if connection.info.server_version >= since:
            answer = connection.pgconn.exec_(statement.encode())
            if answer.status != ExecStatus.COMMAND_OK:
                connection.close()
                raise refusal(error_fields(answer), config.where)
    return connection


class CopyStream(MessageBuffer):
    """Of a connection on which START_REPLICATION was executed: what libpq gives by message goes into one buffer."""

    def __init__(self, connection: LogConnection) -> None:
        super().__init__()
        self._pgconn = connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(self._pgconn.socket, select.POLLOUT)
        self._over = False
        self._failure: SourceUnreachable | None = None

    def fill(self, seconds: float) -> bool:
        """As `MessageBuffer` says."""
        if self._failure is not None:
            raise self._failure
        try:
            if not self._take():
                if not self._poll.poll(seconds * 1000):
                    return False
                self._take()
        except psycopg.Error as error:
            self._failure = _lost(str(error))
            if self.end == self.at:
                raise self._failure from None
        return True  # what came before it first

    def close(self) -> None:
        """The connection has all."""

    def _take(self) -> bool:
        """Take the messages that have arrived; False if there are none.

        The server sends each message as a separate TLS record, and libpq reads one at a time.  Messages left behind
        would be taken row by row, each at the cost of a run.
        """
        if self._over:
            raise EOFError(*self._ended())
        self._make_room()
        receive, until = self._pgconn.get_copy_data, self.end + _MAX_BYTES
        before = self.end
        while self.end < until:
            size, message = receive(1)
            if not size:
                self._pgconn.consume_input()
                size, message = receive(1)
            if size <= 0:
                self._over = size < 0
                break
            if len(self._view) - self.end < HEAD + size:
                self._make_room(HEAD + size)
            start = self.end + HEAD
            _HEAD.pack_into(self._view, self.end, COPY_DATA, 4 + size)
            self.end = start + size
            self._view[start : self.end] = message
        return self.end > before or self._over

    def _send(self, message: bytes) -> None:
        try:
            self._pgconn.put_copy_data(message)
            while self._pgconn.flush():
                if not self._writable.poll(SEND_SECONDS * 1000):
                    raise _lost("the server no longer accepts data")
        except psycopg.Error as error:
            raise _lost(str(error)) from None

    def _ended(self) -> tuple[str, str]:
        """What the server said at the stream's end, and its SQLSTATE."""
        result = self._pgconn.get_result()
        fields = {} if result is None else error_fields(result)
        return fields.get("", "") or "the server ended the stream", fields.get("C", "")


def error_fields(result: PGresult) -> dict[str, str]:
    """An error's fields by their codes, as `socket_stream.fields`; all of it as libpq words it under the empty one."""
    found = {chr(field): result.error_field(field) for field in DiagnosticField}
    return {
        code: value.decode("utf-8", "replace").strip()
        for code, value in {**found, "": result.error_message}.items()
        if value
    }


def refusal(fields: Mapping[str, str], where: str) -> TidemarkError:
    """Tidemark's error for `told_by`."""
    return server_error(fields.get("C", ""), fields.get("M") or fields.get("", ""), where, fields.get("V", ""))


def _lost(why: str) -> SourceUnreachable:
    return SourceUnreachable(f"The connection for the source's log was lost: {why.strip()}")
