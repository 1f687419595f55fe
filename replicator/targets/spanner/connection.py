"""A session of the target, over the vendor's generated client: reads, read-write transactions, definitions.

Each session has its own channel: `interrupt` closes it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import pyarrow as pa
from google.api_core import exceptions
from google.cloud.spanner_admin_database_v1 import DatabaseAdminClient, UpdateDatabaseDdlRequest
from google.cloud.spanner_admin_database_v1.services.database_admin.transports import DatabaseAdminGrpcTransport
from google.cloud.spanner_v1 import (
    CommitRequest,
    ExecuteSqlRequest,
    Mutation,
    PartialResultSet,
    ReadRequest,
    SpannerClient,
    TransactionOptions,
    TransactionSelector,
    Type,
    TypeCode,
)
from google.cloud.spanner_v1.services.spanner.transports import SpannerGrpcTransport
from google.cloud.spanner_v1.types import KeySet
from google.longrunning.operations_pb2 import GetOperationRequest, Operation
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.rpc.error_details_pb2 import RetryInfo

from replicator.errors import TargetConflict, TargetError, TidemarkError
from replicator.targets.google_login import credentials
from replicator.targets.spanner.config import SpannerDestination
from replicator.targets.spanner.failures import explained
from replicator.targets.spanner.values import decoded
from replicator.targets.warehouse.sql_states import AGAIN

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
STATEMENT_SECONDS = 3600.0
COMMIT_SECONDS = 300.0
ABORTED_SECONDS = 60.0  # after this, a transaction that is aborted repeatedly is abandoned
PAUSE_SECONDS = (0.005, 1.0)
DEFINITION_SECONDS = 3600.0  # definitions of large tables take long; they continue after this wait
POLL_SECONDS = (0.05, 5.0)
CHANNEL = [
    ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
    # A connection that is dead without a word is found out, as by the vendor's clients.
    ("grpc.keepalive_time_ms", 120_000), ("grpc.keepalive_timeout_ms", 20_000),
]  # fmt: skip
STRONG = TransactionSelector(single_use=TransactionOptions(read_only=TransactionOptions.ReadOnly(strong=True)))
READ_WRITE = TransactionOptions(read_write=TransactionOptions.ReadWrite())
ALL = KeySet(all_=True)
TEXT = Type(code=TypeCode.STRING)
Found = tuple[list[int], list[list[Value]]]  # codes of the columns' types, rows
Read = Callable[[str, Sequence[str], KeySet], list[list[Value]]]


class SpannerSession:
    """Not thread-safe but for `interrupt`.  Every method raises TargetError or TableError."""

    def __init__(self, one: SpannerDestination) -> None:
        """Connects."""
        self.destination, self._stopped = one, threading.Event()
        self.mark = ""  # the id of the mark whose definitions are being made
        with explained(one):
            self._channel = _channel(one)
            self._api = SpannerClient(transport=SpannerGrpcTransport(channel=self._channel))
            self._admin = DatabaseAdminClient(transport=DatabaseAdminGrpcTransport(channel=self._channel))
            self._metadata = (("google-cloud-resource-prefix", one.name),)
            try:
                self._name = self._api.create_session(
                    database=one.name, retry=None, timeout=float(one.connect_timeout), metadata=self._metadata
                ).name
            except BaseException:
                self._channel.close()
                raise

    # Reads

    def query(self, sql: str, params: Mapping[str, str] | None = None) -> list[list[Any]]:
        """All rows of a small result: numbers, texts and booleans.  params: texts."""
        given = {name: (Value(string_value=text), TEXT) for name, text in (params or {}).items()}
        codes, rows = self._execute(sql, given)
        return [[_plain(value, code) for value, code in zip(row, codes, strict=True)] for row in rows]

    def select(self, sql: str, params: Mapping[str, tuple[Value, Type]], schema: pa.Schema) -> pa.Table:
        """All rows of a result, under the columns of `schema` by their places."""
        return decoded([value for row in self._execute(sql, params)[1] for value in row], schema)

    def read(self, table: str, names: Sequence[str], keys: KeySet, schema: pa.Schema, limit: int = 0) -> pa.Table:
        """Rows by their keys, in the order of the keys.  table, names: as Spanner has them."""
        with self._asking():
            rows = self._read(STRONG, table, names, keys, limit)
        return decoded([value for row in rows for value in row], schema)

    def read_values(self, table: str, names: Sequence[str], keys: KeySet) -> list[list[Value]]:
        """Rows by their keys, as Spanner gives the values."""
        with self._asking():
            return self._read(STRONG, table, names, keys)

    def _execute(self, sql: str, params: Mapping[str, tuple[Value, Type]]) -> Found:
        types = {name: kind for name, (_, kind) in params.items()}
        request = ExecuteSqlRequest(session=self._name, sql=sql, transaction=STRONG, param_types=types)
        if params:
            values = Struct(fields={name: value for name, (value, _) in params.items()})
            ExecuteSqlRequest.pb(request).params.CopyFrom(values)
        with self._asking():
            stream = self._api.execute_streaming_sql(
                request=request, retry=None, timeout=STATEMENT_SECONDS, metadata=self._metadata
            )
            return _found(stream)

    def _read(
        self, within: TransactionSelector, table: str, names: Sequence[str], keys: KeySet, limit: int = 0
    ) -> list[list[Value]]:
        request = ReadRequest(
            session=self._name, transaction=within, table=table, columns=names, key_set=keys, limit=limit
        )
        stream = self._api.streaming_read(
            request=request, retry=None, timeout=STATEMENT_SECONDS, metadata=self._metadata
        )
        return _found(stream)[1]

    # Read-write transactions

    def transact(self, work: Callable[[Read], Sequence[Mutation]], staged: Callable[[], None] = lambda: None) -> None:
        """Run a read-write transaction: what `work` has read is unchanged when its mutations are written.

        Where Spanner aborts it, all of it is repeated, for a minute.  staged: called right before each commit.

        Raises TargetConflict where it is aborted repeatedly.
        """
        until, attempt = time.monotonic() + ABORTED_SECONDS, 0
        with self._asking():
            while True:
                try:
                    return self._transact(work, staged)
                except exceptions.Aborted as error:
                    if time.monotonic() > until:
                        message = f"{self.destination.where} aborted the transaction in favour of others."
                        raise TargetConflict(message, remedy=AGAIN) from None
                    self._pause(_wanted_pause(error, attempt))
                    attempt += 1

    def _transact(self, work: Callable[[Read], Sequence[Mutation]], staged: Callable[[], None]) -> None:
        begun = self._api.begin_transaction(
            session=self._name, options=READ_WRITE, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata
        )
        within = TransactionSelector(id=begun.id)
        try:
            mutations = work(lambda table, names, keys: self._read(within, table, names, keys))
            staged()
            request = CommitRequest(session=self._name, transaction_id=begun.id)
            CommitRequest.pb(request).mutations.extend(Mutation.pb(one) for one in mutations)
            try:
                self._commit(request)
            except (exceptions.ServiceUnavailable, exceptions.InternalServerError):
                self._commit(request)  # one transaction commits once: to ask again is safe
        except exceptions.Aborted:
            raise
        except BaseException:
            self._roll_back(begun.id)
            raise

    def _commit(self, request: CommitRequest) -> None:
        self._api.commit(request=request, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata)

    def _roll_back(self, transaction: bytes) -> None:
        with suppress(exceptions.GoogleAPICallError, grpc.RpcError, ValueError):
            self._api.rollback(
                session=self._name, transaction_id=transaction, retry=None, timeout=10.0, metadata=self._metadata
            )

    # Definitions

    def define(self, statements: Sequence[str], name: str) -> None:
        """Make definitions, one after the other, and wait for their end.

        name: of the operation, which is made once, however often it is asked for.

        An error is `answered` where the operation has failed: its name is used up then.
        """
        with self._asking():
            request = UpdateDatabaseDdlRequest(database=self.destination.name, statements=statements, operation_id=name)
            until, attempt = time.monotonic() + ABORTED_SECONDS, 0
            while True:
                try:
                    self._admin.update_database_ddl(
                        request, retry=None, timeout=COMMIT_SECONDS, metadata=self._metadata
                    )
                    break
                except exceptions.AlreadyExists as error:
                    if name not in str(error.message):
                        raise
                    break
                except exceptions.FailedPrecondition as error:
                    # The emulator makes none while a transaction is open.
                    if "concurrent schema change" not in str(error.message) or time.monotonic() > until:
                        raise
                    self._pause(_wanted_pause(None, attempt))
                    attempt += 1
            self._wait_for(f"{self.destination.name}/operations/{name}")

    def _wait_for(self, name: str) -> None:
        until, pause = time.monotonic() + DEFINITION_SECONDS, POLL_SECONDS[0]
        while True:
            operation: Operation = self._admin.get_operation(
                GetOperationRequest(name=name), retry=None, timeout=60.0, metadata=self._metadata
            )
            if operation.done:
                break
            if time.monotonic() > until:
                raise TargetError(f"A definition at {self.destination.where} is not made yet.", remedy=AGAIN)
            self._pause(pause)
            pause = min(pause * 1.5, POLL_SECONDS[1])
        if operation.error.code:
            failed = exceptions.from_grpc_status(
                _STATUS.get(operation.error.code, grpc.StatusCode.UNKNOWN), operation.error.message
            )
            try:
                with explained(self.destination):
                    raise failed
            except TidemarkError as error:
                error.answered = True
                raise

    # The connection

    def usable(self) -> bool:
        """Is the session alive?"""
        try:
            return self.query("SELECT 1") == [[1]]
        except TargetError:
            return False

    def interrupt(self) -> None:
        """End the work under way with an error; callable from any thread.  Raises nothing."""
        self._stopped.set()
        with suppress(Exception):
            self._channel.close()

    def close(self) -> None:
        """Raises nothing.  A transaction that is open ends with its session."""
        with suppress(Exception):
            self._api.delete_session(name=self._name, retry=None, timeout=5.0, metadata=self._metadata)
        with suppress(Exception):
            self._channel.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        if self._stopped.is_set():
            raise self._interrupted()
        try:
            with explained(self.destination):
                yield
        except TargetError:
            if self._stopped.is_set():
                raise self._interrupted() from None
            raise

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise self._interrupted()

    def _interrupted(self) -> TargetError:
        message = f"The work at {self.destination.where} was interrupted."
        return TargetError(message, remedy="No action required.")


_STATUS = {code.value[0]: code for code in grpc.StatusCode}


def _channel(one: SpannerDestination) -> grpc.Channel:
    if one.plaintext:
        return grpc.insecure_channel(one.host, options=CHANNEL)
    own = credentials(one.settings, SCOPES)
    return SpannerGrpcTransport.create_channel(one.host, credentials=own, scopes=SCOPES, options=CHANNEL)


def _found(stream: Any) -> Found:
    """Types and rows of a result that comes in parts; a text may be cut between two of them."""
    values: list[Value] = []
    codes: list[int] = []
    cut = False
    for part in stream:
        found = PartialResultSet.pb(part)
        codes = codes or [field.type_.code for field in found.metadata.row_type.fields]
        more = list(found.values)
        if cut and more:
            values[-1] = Value(string_value=values[-1].string_value + more.pop(0).string_value)
        values += more
        cut = bool(found.chunked_value)
    return codes, [values[start : start + len(codes)] for start in range(0, len(values), len(codes) or 1)]


def _plain(value: Value, code: int) -> Any:
    if value.HasField("null_value"):
        return None
    match code:
        case TypeCode.INT64:
            return int(value.string_value)
        case TypeCode.BOOL:
            return value.bool_value
    return value.string_value


def _wanted_pause(error: exceptions.Aborted | None, attempt: int) -> float:
    """As Spanner says, or a random time that grows."""
    for detail in error.details if error is not None else ():
        if isinstance(detail, RetryInfo) and detail.retry_delay.ToTimedelta().total_seconds() > 0:
            return float(min(detail.retry_delay.ToTimedelta().total_seconds(), PAUSE_SECONDS[1]))
    longest = min(PAUSE_SECONDS[0] * 2 ** (attempt + 1), PAUSE_SECONDS[1])
    return random.uniform(PAUSE_SECONDS[0], longest)  # noqa: S311 - no secret


def key_set(rows: Sequence[ListValue]) -> KeySet:
    """Of whole keys."""
    made = KeySet()
    KeySet.pb(made).keys.extend(rows)
    return made


def prefixes(rows: Sequence[ListValue]) -> KeySet:
    """Of all rows whose keys begin with these values."""
    made = KeySet()
    for row in rows:
        one = KeySet.pb(made).ranges.add()
        one.start_closed.CopyFrom(row)
        one.end_closed.CopyFrom(row)
    return made


def behind(row: ListValue | None) -> KeySet:
    """Of all rows after this key; of all where there is none."""
    if row is None:
        return ALL
    made = KeySet()
    one = KeySet.pb(made).ranges.add()
    one.start_open.CopyFrom(row)
    one.end_closed.CopyFrom(ListValue())
    return made


def put(table: str, names: Sequence[str], rows: Sequence[ListValue]) -> Mutation:
    """Rows, in place of those under the same keys; columns that are not named keep their values."""
    made = Mutation()
    one = Mutation.pb(made).insert_or_update
    one.table = table
    one.columns.extend(names)
    one.values.extend(rows)
    return made


def change(table: str, names: Sequence[str], rows: Sequence[ListValue]) -> Mutation:
    """Values of rows that are there."""
    made = Mutation()
    one = Mutation.pb(made).update
    one.table = table
    one.columns.extend(names)
    one.values.extend(rows)
    return made


def delete(table: str, keys: KeySet) -> Mutation:
    """Rows; those that are not there do no harm."""
    return Mutation(delete=Mutation.Delete(table=table, key_set=keys))
