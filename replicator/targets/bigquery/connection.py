"""A session of the target: query jobs, files that are loaded into staging tables, transactions as one script each.

A transaction is not held open between requests: its statements are collected here and sent as one script, which
BigQuery executes whole or not at all, even if the worker or its connection is lost (ADR 50).
"""

from __future__ import annotations

import io
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, SupportsInt
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from google.api_core.client_info import ClientInfo
from google.api_core.exceptions import Conflict, GoogleAPICallError, NotFound, RetryError, ServerError
from google.api_core.retry import Retry
from google.cloud import bigquery
from google.cloud.bigquery.retry import DEFAULT_RETRY

from replicator.addresses import resolved
from replicator.errors import TargetError, TidemarkError
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import SCOPES, BigQueryDestination
from replicator.targets.bigquery.failures import PASSING, explained, reason_of
from replicator.targets.bigquery.names import bigquery_type, quoted, type_of
from replicator.targets.bigquery.value_limits import check_values
from replicator.targets.google_login import credentials
from replicator.targets.warehouse.session import as_arrow

STAGE = "_tidemark_stage_"
STAGE_LIFETIME = timedelta(hours=6)  # longer than any statement; staging tables that are left behind expire then
STATEMENT_SECONDS = 3600
REQUEST_SECONDS = 60.0
UPLOAD_SECONDS = 300.0  # of a part of a file
RETRY = DEFAULT_RETRY.with_timeout(120.0)  # of a request
DROP = DEFAULT_RETRY.with_timeout(10.0)
# A job that "already exists" may not be found for a moment.
EXISTS = Retry(lambda error: isinstance(error, NotFound) or RETRY._predicate(error), timeout=60.0)  # noqa: SLF001
PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # before a job that failed by throttling or in passing is sent again
LOOK_SECONDS = (0.05, 1.0)  # between two looks at a job: at first, and at last
COUNT = "tidemark_n"  # variables of a script: no column is likely to be called so
COUNTED = re.compile(r"tidemark count (\d+) is (-?\d+)")
MAX_SCRIPT = 1_000_000  # characters; BigQuery takes 1 MB


class Later:
    """A number of rows that is known once its transaction has ended."""

    def __init__(self) -> None:
        self.value: int | None = None

    def __int__(self) -> int:
        if self.value is None:
            message = "the transaction has not ended"
            raise RuntimeError(message)
        return self.value


@dataclass
class _Statement:
    """query: of a count; else a statement whose rows are counted.  wanted: how many they must be, else the error."""

    sql: str
    count: Later
    query: bool = False
    wanted: int | None = None
    error: Callable[[int], TidemarkError] | None = None

    def script(self, number: int) -> str:
        name = f"{COUNT}{number}"
        does = f"SET {name} = ({self.sql});" if self.query else f"{self.sql};\nSET {name} = @@row_count;"
        if self.wanted is None:
            return does
        told = f"CONCAT('tidemark count {number} is ', CAST(IFNULL({name}, 0) AS STRING))"
        return f"{does}\nIF IFNULL({name}, 0) <> {self.wanted} THEN RAISE USING MESSAGE = {told}; END IF;"


@dataclass
class _Transaction:
    statements: list[_Statement] = field(default_factory=list)

    def add(self, sql: str, *, query: bool = False) -> Later:
        self.statements.append(_Statement(sql, Later(), query))
        return self.statements[-1].count

    def script(self, end: Sequence[str]) -> str:
        names = [f"{COUNT}{number}" for number in range(len(self.statements))]
        parts = [one.script(number) for number, one in enumerate(self.statements)]
        return "\n".join([f"DECLARE {', '.join(names)} INT64;", "BEGIN TRANSACTION;", *parts, *end])

    def counted(self) -> str:
        return f"SELECT {', '.join(f'{COUNT}{number}' for number in range(len(self.statements)))};"


class BigQuerySession:
    """See `Session`."""

    def __init__(self, destination: BigQueryDestination, login: Any = None) -> None:
        """Asks for nothing yet.  login: google.auth's credentials, where they are made already.  Raises TargetError."""
        self._to, self._stopped = destination, threading.Event()
        self._transaction: _Transaction | None = None
        self._job = ""
        self.guard = ""  # a SELECT that must have a row while definitions are made
        self.stages: list[str] = []
        with explained(destination):
            self.login = login or credentials(destination.login, SCOPES)
            self.client = client(destination, self.login)

    # Statements

    def execute(self, sql: str) -> SupportsInt:
        """See `Session`."""
        if self._transaction is not None:
            return self._transaction.add(sql)
        with self._asking():
            return int(self._run(sql).num_dml_affected_rows or 0)

    def count(self, sql: str) -> SupportsInt:
        """The one number that a SELECT has; within a transaction known at its end."""
        if self._transaction is not None:
            return self._transaction.add(sql, query=True)
        ((found,),) = self.query(sql)
        return int(found)

    def require(self, found: SupportsInt, wanted: int, error: Callable[[int], TidemarkError]) -> None:
        """See `Dialect`."""
        if self._transaction is None or not isinstance(found, Later):
            if int(found) != wanted:
                raise error(int(found))
            return
        for one in self._transaction.statements:
            if one.count is found:
                one.wanted, one.error = wanted, error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """See `Session`.  Within a transaction: what its statements so far would have made of the rows."""
        waiting = self._transaction
        with self._asking():
            # A script that ends without COMMIT is rolled back.
            job = self._scripted(waiting, [f"{sql};"]) if waiting and waiting.statements else self._run(sql)
            rows = job.result(retry=RETRY, job_retry=None, timeout=REQUEST_SECONDS)
            return [tuple(row.values()) for row in rows]

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        """See `Session`."""
        return as_arrow(self.query(sql), schema, bytes)

    def define(self, sql: str) -> None:
        """Execute one or several definitions, only while the guard has a row.  They commit immediately.

        Raises TargetConflict.
        """
        if not self.guard:
            self.execute(sql)
            return
        kept = f"IF NOT EXISTS ({self.guard}) THEN RAISE USING MESSAGE = 'aborted due to another worker'; END IF;"
        with self._asking():
            self._run(f"{kept}\n{sql};")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See `Session`."""
        self._transaction = waiting = _Transaction()
        try:
            yield
            if waiting.statements:
                with self._asking():
                    job = self._scripted(waiting, ["COMMIT TRANSACTION;", waiting.counted()])
                    (counts,) = job.result(retry=RETRY, job_retry=None, timeout=REQUEST_SECONDS)
                for one, count in zip(waiting.statements, counts.values(), strict=True):
                    one.count.value = int(count or 0)
        finally:
            self._transaction = None

    def _scripted(self, waiting: _Transaction, end: Sequence[str]) -> bigquery.QueryJob:
        try:
            return self._run(waiting.script(end))
        except GoogleAPICallError as error:
            if match := COUNTED.search(str(error.message)):
                one = waiting.statements[int(match[1])]
                if one.error is not None:
                    raise one.error(int(match[2])) from None
            raise

    # Files

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        """See `Session`.  By way of a staging table: a load job takes part in no transaction."""
        if not rows.num_rows:
            return 0
        stage, names = self.upload(table, rows), ", ".join(map(quoted, rows.column_names))
        self.execute(f"INSERT INTO {place} ({names}) SELECT {names} FROM {stage}")
        return int(rows.num_rows)

    def upload(self, table: TargetTable, rows: pa.Table) -> str:
        """Load rows into a new staging table in the dataset of `table`; return its place."""
        check_values(rows, str(table))
        fields = [schema_field(one.name, type_of(one.type)) for one in rows.schema]
        with self._asking():
            if rows.num_rows:
                self._load(table, rows, fields)
            else:
                self._make_stage(table, fields)
        return ".".join(map(quoted, self.stages[-1].split(".")))

    def discard(self) -> None:
        """Drop the session's staging tables.  What cannot be dropped now expires."""
        while self.stages:
            one = self.stages.pop()
            with suppress(TargetError), self._asking():
                self.client.delete_table(one, not_found_ok=True, retry=DROP, timeout=REQUEST_SECONDS)

    def _make_stage(self, table: TargetTable, fields: list[bigquery.SchemaField]) -> str:
        one = f"{self._to.project}.{table.namespace}.{STAGE}{uuid.uuid4().hex}"
        made = bigquery.Table(one, schema=fields)
        made.expires = datetime.now(UTC) + STAGE_LIFETIME
        self.client.create_table(made, exists_ok=True, retry=RETRY, timeout=REQUEST_SECONDS)
        self.stages.append(one)
        return one

    def _load(self, table: TargetTable, rows: pa.Table, fields: list[bigquery.SchemaField]) -> None:
        """Load rows; each attempt has a new table, as one that is reported to have failed may have loaded its rows."""
        config = bigquery.LoadJobConfig(
            source_format=bigquery.SourceFormat.PARQUET, schema=fields, write_disposition="WRITE_EMPTY",
            create_disposition="CREATE_NEVER", decimal_target_types=["NUMERIC", "BIGNUMERIC"],
            column_name_character_map="V2", labels={"application": "tidemark"},
        )  # fmt: skip
        buffer = io.BytesIO()
        pq.write_table(rows, buffer, compression="zstd")

        def begun(name: str) -> Any:
            return self.client.load_table_from_file(
                buffer,
                self._make_stage(table, fields),
                rewind=True,
                size=buffer.getbuffer().nbytes,
                job_id=name,
                job_config=config,
                timeout=UPLOAD_SECONDS,
            )

        self._done(begun)

    # Definitions by the API itself

    def described(self, place: str) -> bigquery.Table | None:
        """A table, or None.  place: project.dataset.table."""
        with self._asking():
            try:
                return self.client.get_table(place, retry=RETRY, timeout=REQUEST_SECONDS)
            except NotFound:
                return None

    def make_dataset(self, name: str) -> None:
        """A dataset, where there is none."""
        one = bigquery.Dataset(f"{self._to.project}.{name}")
        with self._asking():
            try:
                self.client.get_dataset(one.reference, retry=RETRY, timeout=REQUEST_SECONDS)
            except NotFound:
                one.location = self._to.location
                self.client.create_dataset(one, exists_ok=True, retry=RETRY, timeout=REQUEST_SECONDS)

    def cluster(self, table: bigquery.Table, by: Sequence[str]) -> None:
        """The order of its rows from now on.  TargetConflict where the table has changed since it was described."""
        table.clustering_fields = list(by) or None
        with self._asking():
            self.client.update_table(table, ["clustering_fields"], retry=RETRY, timeout=REQUEST_SECONDS)

    # Jobs

    def _run(self, sql: str) -> bigquery.QueryJob:
        if len(sql) > MAX_SCRIPT:
            message = f"{self._to.where} takes statements of {MAX_SCRIPT} characters at most."
            raise TargetError(message, remedy="Exclude columns of the table from the replicator.")
        config = bigquery.QueryJobConfig(
            use_legacy_sql=False, use_query_cache=False, job_timeout_ms=STATEMENT_SECONDS * 1000,
            labels={"application": "tidemark"},
        )  # fmt: skip

        def begun(name: str) -> Any:
            return self.client.query(
                sql, job_id=name, job_config=config, retry=RETRY, job_retry=None, timeout=REQUEST_SECONDS
            )

        return self._done(begun)

    def _done(self, begun: Callable[[str], Any]) -> Any:
        """The job at its end.  One that failed in passing is sent again under another name.

        Had it been done after all, a position or a name that is taken tells.
        """
        for pause in (*PAUSES, None):
            try:
                job = self._waited(self._known(begun))
            except GoogleAPICallError as error:
                if pause is None or reason_of(error) not in PASSING:
                    raise
            else:
                return job
            self._pause(pause)
        raise AssertionError

    def _known(self, begun: Callable[[str], Any]) -> Any:
        """The job that has begun: where its answer was lost, it is looked for under its name."""
        name = f"tidemark_{uuid.uuid4().hex}"
        self._job = name
        try:
            return begun(name)
        except Conflict:
            return self.client.get_job(name, retry=EXISTS, timeout=REQUEST_SECONDS)
        except (RetryError, ServerError, OSError):
            with suppress(NotFound):
                return self.client.get_job(name, retry=RETRY, timeout=REQUEST_SECONDS)
            raise

    def _waited(self, job: Any) -> Any:
        seconds, most = LOOK_SECONDS
        while job.state != "DONE":
            self._pause(seconds)
            seconds = min(seconds * 1.5, most)
            job.reload(retry=RETRY, timeout=REQUEST_SECONDS)
        if (error := job.exception(timeout=REQUEST_SECONDS)) is not None:
            raise error
        return job

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise TargetError(f"The work at {self._to.where} was interrupted.", remedy="No action required.")

    # The session

    def usable(self) -> bool:
        """See `Session`.  There is no connection that could be lost: requests are independent."""
        return self._transaction is None and not self._stopped.is_set()

    def interrupt(self) -> None:
        """See `Session`.  Through another client: this one waits for an answer."""
        self._stopped.set()
        if self._job:
            with suppress(Exception):
                other = client(self._to, self.login)
                try:
                    other.cancel_job(self._job, retry=None, timeout=self._to.connect_timeout)
                finally:
                    other.close()

    def close(self) -> None:
        """See `Session`.  Staging tables that are left expire: a script that is still at work may read them."""
        with suppress(Exception):
            self.client.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._pause(0)
        with explained(self._to):
            yield


def client(to: BigQueryDestination, login: Any) -> bigquery.Client:
    """The vendor's.  Raises ConfigurationError for an address that leads where no connection goes, OSError for none."""
    if to.endpoint:
        parts = urlsplit(to.endpoint)
        resolved(parts.hostname or "", parts.port or 443)
    options = {"api_endpoint": to.endpoint} if to.endpoint else None
    return bigquery.Client(
        to.project, login, location=to.location, client_options=options, client_info=ClientInfo(user_agent="tidemark")
    )


def schema_field(name: str, kind: DataType) -> bigquery.SchemaField:
    """A column as the API defines it."""
    digits = {"precision": kind.precision, "scale": kind.scale} if kind.kind is Kind.DECIMAL else {}
    return bigquery.SchemaField(name, bigquery_type(kind).partition("(")[0], **digits)
