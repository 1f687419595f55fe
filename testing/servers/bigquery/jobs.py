"""Jobs: begun once under each name, done in the background, looked at until they have ended."""

from __future__ import annotations

import io
import json
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from testing.servers.bigquery.refusals import Refusal
from testing.servers.bigquery.results import field_of_arrow, rows_of
from testing.servers.bigquery.scripts import Outcome, Run
from testing.servers.bigquery.tables import COLUMN, Place, Table, Tables, now, quoted

PAGE = 5000  # rows
# What the types of a Parquet file become in columns.
TAKEN = {
    "INTEGER": pa.types.is_integer, "FLOAT": pa.types.is_floating, "BOOLEAN": pa.types.is_boolean,
    "STRING": pa.types.is_string, "BYTES": pa.types.is_binary, "DATE": pa.types.is_date,
    "TIMESTAMP": lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None,
    "DATETIME": lambda kind: pa.types.is_timestamp(kind) and kind.tz is None,
    "NUMERIC": pa.types.is_decimal, "BIGNUMERIC": pa.types.is_decimal,
}  # fmt: skip


@dataclass
class Job:
    """configuration: as it was sent."""

    name: str
    configuration: dict[str, Any]
    run: Run
    created: int = field(default_factory=now)
    ended: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome = field(default_factory=Outcome)
    error: Refusal | None = None


class Jobs:
    """All jobs.  Thread-safe.  failing: the next jobs' errors; conflicts: the number of next transactions to abort."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self._jobs = tables, dict[str, Job]()
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="job")
        self.failing: list[str] = []
        self.failing_late: list[str] = []  # kinds of jobs that are done, and said to have failed
        self.conflicts = 0
        self.statements: Path | None = None  # the log of executed queries, one JSON string per line

    def begin(self, body: dict[str, Any], data: bytes | None = None) -> dict[str, Any]:
        """Refusal where a job has that name."""
        configuration, name = body["configuration"], body["jobReference"]["jobId"]
        location = body["jobReference"].get("location") or "US"
        if location.upper() != self.tables.location.upper():
            raise Refusal("notFound", f"Not found: Dataset was not found in location {location}")
        with self.tables.lock:
            if name in self._jobs:
                raise Refusal("duplicate", f"Already Exists: Job {self.tables.project}:{location}.{name}")
            abort = self.conflicts > 0 and "COMMIT TRANSACTION" in configuration.get("query", {}).get("query", "")
            self.conflicts -= abort
            job = Job(name, configuration, Run(self.tables, name, abort))
            if self.failing:
                job.error = Refusal(self.failing.pop(), "The job encountered an error during execution.")
                job.ended.set()
            self._jobs[name] = job
        if not job.ended.is_set():
            self._pool.submit(self._do, job, data)
        return self.resource(name)

    def find(self, name: str) -> Job:
        if name not in self._jobs:
            raise Refusal("notFound", f"Not found: Job {self.tables.project}:{name}")
        return self._jobs[name]

    def cancel(self, name: str) -> dict[str, Any]:
        job = self.find(name)
        if not job.ended.is_set():
            job.run.interrupt()
        return {"kind": "bigquery#jobCancelResponse", "job": self.resource(name)}

    def cancel_all(self) -> None:
        for job in list(self._jobs.values()):
            if not job.ended.is_set():
                job.run.interrupt()

    def resource(self, name: str) -> dict[str, Any]:
        """As the API describes it."""
        job = self.find(name)
        done = job.ended.is_set()
        status: dict[str, Any] = {"state": "DONE" if done else "RUNNING"}
        if done and job.error is not None:
            status |= {"errorResult": job.error.proto, "errors": [job.error.proto]}
        kind = "query" if "query" in job.configuration else "load"
        statistics: dict[str, Any] = {"creationTime": str(job.created), "startTime": str(job.created)}
        if done:
            statistics["endTime"] = str(now())
        if kind == "query":
            more = {"statementType": job.outcome.kind, "totalBytesProcessed": "0"}
            if job.outcome.changed is not None:
                more["numDmlAffectedRows"] = str(job.outcome.changed)
            statistics["query"] = more
        return {
            "kind": "bigquery#job", "id": f"{self.tables.project}:{self.tables.location}.{name}", "status": status,
            "jobReference": {"projectId": self.tables.project, "jobId": name, "location": self.tables.location},
            "configuration": job.configuration | {"jobType": kind.upper()}, "statistics": statistics,
        }  # fmt: skip

    def results(self, name: str, params: dict[str, str]) -> dict[str, Any]:
        """See jobs.getQueryResults."""
        job = self.find(name)
        job.ended.wait(min(float(params.get("timeoutMs", "10000")) / 1000, 10.0))
        answer: dict[str, Any] = {
            "kind": "bigquery#getQueryResultsResponse", "jobComplete": job.ended.is_set(),
            "jobReference": self.resource(name)["jobReference"],
        }  # fmt: skip
        if not job.ended.is_set():
            return answer
        if job.error is not None:
            raise job.error
        if (rows := job.outcome.rows) is None:
            return answer
        first = int(params.get("pageToken") or params.get("startIndex") or 0)
        size = min(int(params.get("maxResults", PAGE)), PAGE)
        whole = params.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        answer |= {"schema": {"fields": [field_of_arrow(one) for one in rows.schema]}, "totalRows": str(rows.num_rows)}
        if size and (page := rows.slice(first, size)).num_rows:
            answer["rows"] = rows_of(page, whole_times=whole)
            if first + size < rows.num_rows:
                answer["pageToken"] = str(first + size)
        return answer

    def listed(self, place: Place, params: dict[str, str]) -> dict[str, Any]:
        """See tabledata.list."""
        table = self.tables.find(place)
        first = int(params.get("pageToken") or params.get("startIndex") or 0)
        size = min(int(params.get("maxResults", PAGE)), PAGE)
        cursor = self.tables.cursor()
        sql = f"SELECT * FROM {table.physical} LIMIT {size} OFFSET {first}"
        page = cursor.execute(sql).to_arrow_table()
        total, whole = self.tables.rows(table), params.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        more = {"pageToken": str(first + size)} if first + size < total and size else {}
        rows = rows_of(page, whole_times=whole)
        return {"kind": "bigquery#tableDataList", "totalRows": str(total), "rows": rows, **more}

    def _do(self, job: Job, data: bytes | None) -> None:
        try:
            if "query" in job.configuration:
                job.outcome = self._query(job)
            else:
                self._load(job.configuration["load"], data or b"")
        except Refusal as error:
            job.error = error
        except Exception as error:  # noqa: BLE001 - a test sees what has failed here
            traceback.print_exc()
            job.error = Refusal("invalidQuery", f"The stand-in failed: {type(error).__name__}: {error}")
        with self.tables.lock:
            if job.error is None and (kind := _kind(job.configuration)) in self.failing_late:
                self.failing_late.remove(kind)
                job.error = Refusal("jobInternalError", "The job encountered an internal error during execution.")
        job.ended.set()

    def _query(self, job: Job) -> Outcome:
        query = job.configuration["query"]
        if query.get("useLegacySql") is not False:
            raise Refusal("invalidQuery", "Legacy SQL is not played here")
        outcome = job.run.run(query["query"])
        if self.statements is not None:
            with self.tables.lock, self.statements.open("a") as told:
                told.write(json.dumps(query["query"]) + "\n")
        return outcome

    def _load(self, load: dict[str, Any], data: bytes) -> None:
        """All rows of a Parquet file, or none."""
        reference = load["destinationTable"]
        table = self.tables.find((reference["datasetId"], reference["tableId"]))
        if load.get("sourceFormat") != "PARQUET" or load.get("createDisposition") != "CREATE_NEVER":
            raise Refusal("invalid", "Only Parquet files for tables that are there are played here")
        if load.get("writeDisposition") == "WRITE_EMPTY" and self.tables.rows(table):
            raise Refusal("duplicate", "Already Exists: Table is not empty")
        try:
            rows = pq.read_table(io.BytesIO(data))
        except (pa.ArrowException, OSError):
            raise Refusal("invalid", "Error while reading data, error message: not a Parquet file") from None
        self._check(rows, table, load.get("columnNameCharacterMap", "STRICT"))
        cursor = self.tables.cursor()
        cursor.register("loaded", rows)
        listed = ", ".join(quoted(name) for name in rows.column_names)
        try:
            cursor.execute(f"INSERT INTO {table.physical} ({listed}) SELECT {listed} FROM loaded")
        except duckdb.Error:
            raise Refusal("invalid", "Error while reading data, error message: a value does not fit") from None
        finally:
            cursor.close()
        table.touch()

    def _check(self, rows: pa.Table, table: Table, names: str) -> None:
        there = {one["name"]: one["type"] for one in table.fields}
        for one in rows.schema:
            plain = one.name.replace("_", "a").isalnum() and one.name.isascii()
            if not COLUMN.fullmatch(one.name) or (names != "V2" and not plain):
                raise Refusal("invalid", f"Invalid field name {one.name}")
            if one.name not in there:
                raise Refusal("invalid", f"No such field: {one.name}")
            if not TAKEN[there[one.name]](one.type):
                raise Refusal("invalid", f"Field {one.name} has changed type from {there[one.name]} to {one.type}")


def _kind(configuration: dict[str, Any]) -> str:
    if "load" in configuration:
        return "load"
    return "script" if "COMMIT TRANSACTION" in configuration["query"]["query"] else "query"
