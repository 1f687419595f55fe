"""A connection to Postgres that streams results, and ends a statement when the client cancels it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from psycopg import pq

from testing.servers.sqlserver.refusals import Refusal, of_postgres

ROWS_AT_ONCE = 500
_FIELDS = {
    "sqlstate": pq.DiagnosticField.SQLSTATE, "message": pq.DiagnosticField.MESSAGE_PRIMARY,
    "detail": pq.DiagnosticField.MESSAGE_DETAIL, "table": pq.DiagnosticField.TABLE_NAME,
    "column": pq.DiagnosticField.COLUMN_NAME, "constraint": pq.DiagnosticField.CONSTRAINT_NAME,
    "schema": pq.DiagnosticField.SCHEMA_NAME,
}  # fmt: skip
Waiting = Callable[[int, float], bool]
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY)
_ROWS = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.TUPLES_CHUNK)


class Cancelled(Exception):
    """The client has cancelled the statement."""


class LoginFailed(Exception):
    """Postgres does not let the login in."""


class Connection:
    """`cancelled(file, seconds)`: waits for the file, or for a cancel of the client; True for that."""

    def __init__(self, address: Mapping[str, Any], cancelled: Waiting | None = None) -> None:
        """LoginFailed."""
        parts = {**address, "application_name": "sqlserver", "client_encoding": "UTF8"}
        given = " ".join(
            "{}='{}'".format(name, str(value).replace("\\", "\\\\").replace("'", "\\'"))
            for name, value in parts.items()
        )
        self._conn = pq.PGconn.connect(given.encode())
        self.database = str(address["dbname"])
        self._cancelled, self._attended = cancelled, False
        if self._conn.status != pq.ConnStatus.OK:
            message = self._conn.error_message.decode(errors="replace")
            raise LoginFailed(message)
        self.execute(
            "SET search_path = pg_catalog, ss; SET plan_cache_mode = force_custom_plan; SET jit = off; SET"
            " bytea_output = hex; SET DateStyle = ISO; SET extra_float_digits = 1; SET check_function_bodies = off"
        )

    def named(self, spid: int, *, encrypted: bool) -> None:
        """For the views of sessions."""
        self.execute(
            f"SET application_name = 'sqlserver {spid}'; SET tidemark.spid = {spid}; SET tidemark.encrypted ="
            f" '{'TRUE' if encrypted else 'FALSE'}'"
        )

    @property
    def in_transaction(self) -> bool:
        return self._conn.transaction_status != pq.TransactionStatus.IDLE

    @property
    def pid(self) -> int:
        return self._conn.backend_pid

    def close(self) -> None:
        self._conn.finish()

    def execute(self, sql: str) -> int:
        """Statements without results that matter; the last one's count of rows.  Refusal, Cancelled."""
        self._conn.send_query(sql.encode())
        count = 0
        for result in self._results():
            count = result.command_tuples or 0
        return count

    def run(self, sql: str) -> None:
        """As `execute`, without the count."""
        self.execute(sql)

    def query(self, sql: str, values: Sequence[str | None] = ()) -> list[list[Any]]:
        """Rows as texts.  Refusal, Cancelled."""
        self._conn.send_query_params(sql.encode(), [None if one is None else one.encode() for one in values])
        found: list[list[Any]] = []
        for result in self._results():
            for row in range(result.ntuples):
                cells = (result.get_value(row, at) for at in range(result.nfields))
                found.append([None if cell is None else cell.decode() for cell in cells])
        return found

    def stream(self, sql: str, values: Sequence[str | None] = ()) -> Iterator[Any]:
        """Results, some hundred rows each, binary; the first at once, if without rows.  Refusal, Cancelled."""
        given = [None if one is None else one.encode() for one in values]
        self._conn.send_query_params(sql.encode(), given, result_format=pq.Format.BINARY)
        self._conn.set_chunked_rows_mode(ROWS_AT_ONCE)
        yield from self._results()

    def _results(self) -> Iterator[Any]:
        failure: Exception | None = None
        try:
            while (result := self._next()) is not None:
                if result.status in (
                    pq.ExecStatus.FATAL_ERROR,
                    pq.ExecStatus.BAD_RESPONSE,
                    pq.ExecStatus.NONFATAL_ERROR,
                ):
                    failure = failure or self._failure(result)
                elif failure is None:
                    yield result
        except GeneratorExit:
            self._conn.get_cancel().cancel()
            while self._next() is not None:
                pass
            raise
        if self._attended:  # the client waits for the answer to its cancel, though all was done before it came
            self._attended, failure = False, Cancelled()
        if failure is not None:
            raise failure

    def _failure(self, result: Any) -> Exception:
        fields = {name: (result.error_field(field) or b"").decode(errors="replace") for name, field in _FIELDS.items()}
        if fields["sqlstate"] == "57014":
            return Cancelled()
        if fields["sqlstate"][:2] in ("57", "08", ""):
            return ConnectionError(fields["message"] or self._conn.error_message.decode(errors="replace"))
        return of_postgres(fields, self.database)

    def _next(self) -> Any:
        """The next result; cancels where the client does."""
        while True:
            if self._conn.is_busy() and self._cancelled is not None:
                if self._cancelled(self._conn.socket, 60.0):
                    self._attended = True
                    self._conn.get_cancel().cancel()
                    self._cancelled = _never(self._cancelled, self)
                self._conn.consume_input()
                continue
            return self._conn.get_result()

    def restore(self, cancelled: Waiting) -> None:
        """After a cancel."""
        self._cancelled, self._attended = cancelled, False


def _never(_: Waiting, __: Connection) -> Waiting:
    import select

    def wait(file: int, seconds: float) -> bool:
        select.select([file], [], [], seconds)
        return False

    return wait


def rows_of(result: Any) -> bool:
    """Does it have rows, or could it?"""
    return result.status in _ROWS


__all__ = ["Cancelled", "Connection", "LoginFailed", "Refusal", "rows_of"]
