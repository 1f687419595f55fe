"""A session of Redshift by Amazon's own client: statements, loads through S3, transactions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import redshift_connector

from replicator.addresses import resolved
from replicator.errors import TargetError, ValueDoesNotFit
from replicator.targets.base import TargetTable
from replicator.targets.redshift.aws import Aws
from replicator.targets.redshift.config import DISABLE, RedshiftDestination
from replicator.targets.redshift.failures import explained
from replicator.targets.redshift.sql import LOAD, MAX_BYTES, MAX_TEXT_BYTES, literal, quoted
from replicator.targets.warehouse.session import as_arrow, transaction

STATEMENT_SECONDS = 3600
# Columns keep the case of their names; an abandoned statement ends.
SESSION = (
    "SET enable_case_sensitive_identifier TO true",
    f"SET statement_timeout TO {STATEMENT_SECONDS * 1000}",
)
_KEEPALIVE = {"tcp_keepalive_idle": 30, "tcp_keepalive_interval": 10, "tcp_keepalive_count": 3}
TOO_LONG = "Exclude the column from the replicator, or shorten the value in the source; then resnapshot the table."


def connected(to: RedshiftDestination, aws: Aws) -> Any:
    """Open a connection of Amazon's client with autocommit.  Raises what `explained` explains."""
    resolved(to.host, to.port)
    user, password = aws.login()
    made = redshift_connector.Connection(
        user, password, to.database, to.host, to.port, ssl=to.tls != DISABLE, sslmode=to.tls,
        timeout=to.connect_timeout, application_name="tidemark", max_prepared_statements=0, **_KEEPALIVE,
    )  # fmt: skip
    made.autocommit = True
    made._usock.settimeout(None)  # noqa: SLF001 - the client has one time for connecting and for statements
    return made


class RedshiftSession:
    """See `Session`."""

    def __init__(self, to: RedshiftDestination, aws: Aws) -> None:
        """Connects.  Raises TargetError."""
        self._to, self._aws, self._stopped = to, aws, threading.Event()
        self.stages: list[str] = []
        with explained(to.where):
            self._connection = connected(to, aws)
            try:
                for one in SESSION:
                    self._run(one)
                self._process = int(self._run("SELECT pg_backend_pid()").fetchall()[0][0])
            except BaseException:
                self.close()
                raise

    def execute(self, sql: str) -> int:
        """See `Session`."""
        with self._asking():
            return max(int(self._run(sql).rowcount), 0)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """See `Session`."""
        with self._asking():
            return [tuple(row) for row in self._run(sql).fetchall()]

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        """See `Session`."""
        return as_arrow(self.query(sql), schema, _bytes)

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        """See `Session`.

        COPY takes the file's columns by their places, and has no times with a zone: unless the table is a staging table
        of these very columns, the file is loaded into another one, whose rows are then inserted.
        """
        check_values(rows, table)
        if not rows.num_rows:
            return 0
        zoned = {one.name for one in rows.schema if pa.types.is_timestamp(one.type) and one.type.tz}
        if place in self.stages and not zoned:
            self._copy(place, rows)
            return int(rows.num_rows)
        names = [quoted(name) for name in rows.column_names]
        plain = [f"CAST({quoted(one)} AS TIMESTAMP) AS {quoted(one)}" if one in zoned else quoted(one)
            for one in rows.column_names]  # fmt: skip
        self.execute(f"CREATE TEMP TABLE {LOAD} AS SELECT {', '.join(plain)} FROM {place} WHERE 1 = 0")
        self.stages.append(LOAD)
        for place_of, one in enumerate(rows.schema):
            if one.name in zoned:
                rows = rows.set_column(place_of, one.name, rows.column(place_of).cast(pa.timestamp("us")))
        self._copy(LOAD, rows)
        values = [f"{quoted(one)} AT TIME ZONE 'UTC'" if one in zoned else quoted(one) for one in rows.column_names]
        self.execute(f"INSERT INTO {place} ({', '.join(names)}) SELECT {', '.join(values)} FROM {LOAD}")
        self.execute(f"DROP TABLE {LOAD}")
        self.stages.remove(LOAD)
        return int(rows.num_rows)

    def _copy(self, place: str, rows: pa.Table) -> None:
        """Upload the rows to a new file, even in a second attempt, and copy it."""
        how, value = self._aws.authorization()
        url = self._aws.put(rows)
        try:
            self.execute(
                f"COPY {place} FROM {literal(url)} {how}{' ' + literal(value) if value else ''} FORMAT AS PARQUET"
            )
        finally:
            self._aws.delete(url)

    def transaction(self) -> AbstractContextManager[None]:
        """See `Session`."""
        return transaction(self.execute, lambda: self._run("ROLLBACK"))

    def usable(self) -> bool:
        """See `Session`."""
        try:
            self.query("SELECT 1")
        except TargetError:
            return False
        return not self._connection.in_transaction

    def interrupt(self) -> None:
        """See `Session`.  Redshift goes on with a statement whose client is gone: another session ends it."""
        self._stopped.set()
        self._cut()
        with suppress(Exception):
            other = connected(self._to, self._aws)
            try:
                other.cursor().execute(f"SELECT pg_terminate_backend({self._process})")
            finally:
                other.close()

    def close(self) -> None:
        """See `Session`.  Its temporary tables end with it."""
        with suppress(Exception):
            self._connection.close()
        self._cut()

    def _cut(self) -> None:
        """The client says good-bye to a server that answers, and leaves the socket of one that does not."""
        with suppress(Exception):
            self._connection._usock.shutdown(socket.SHUT_RDWR)  # noqa: SLF001 - it has no such method

    def _run(self, sql: str) -> Any:
        """The client would keep the text of every statement for as long as it lives, credentials of COPY among them."""
        try:
            return self._connection.cursor().execute(sql)
        finally:
            self._connection._caches.clear()  # noqa: SLF001 - nothing else empties it

    @contextmanager
    def _asking(self) -> Iterator[None]:
        if self._stopped.is_set():
            raise TargetError(f"The work at {self._to.where} was interrupted.", remedy="No action required.")
        with explained(self._to.where):
            yield


def check_values(rows: pa.Table, table: TargetTable) -> None:
    """ValueDoesNotFit for a value that Redshift has no room for: nothing is cut off."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        text = pa.types.is_string(column.type)
        if not text and not pa.types.is_binary(column.type):
            continue
        limit = MAX_TEXT_BYTES if text else MAX_BYTES
        longest = pc.max(pc.binary_length(column)).as_py() or 0
        if longest > limit:
            message = f"The column {name} of {table} has a value of {longest} bytes; Redshift takes {limit} at most."
            raise ValueDoesNotFit(message, remedy=TOO_LONG, column=name)
        if text and pc.any(pc.match_substring(column, "\0")).as_py():
            message = f"The column {name} of {table} has a text with a NUL character, which Redshift cannot store."
            remedy = "Remove the character in the source, or exclude the column; then resnapshot the table."
            raise ValueDoesNotFit(message, remedy=remedy, column=name)


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits.removeprefix("\\x"))
