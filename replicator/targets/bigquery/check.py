"""The test of a BigQuery destination: one thing after the other, each with the command to paste where it fails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from google.auth.transport.requests import Request

from replicator.errors import TargetError, TargetUnauthorized
from replicator.model.schema import SEQUENCE
from replicator.model.types import BIGINT, STRING
from replicator.sources.base import CheckResult
from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import BigQueryDestination, destination
from replicator.targets.bigquery.connection import RETRY, BigQuerySession
from replicator.targets.bigquery.dialect import BigQueryDialect
from replicator.targets.bigquery.failures import SERVICE, explained
from replicator.targets.check import LOOKED_INTO, Attempt, tried, written
from replicator.targets.google_login import enable, grant
from replicator.targets.warehouse.dialect import POSITIONS

JOBS, DATASETS = "roles/bigquery.jobUser", "roles/bigquery.user"
_COLUMNS = (("id", BIGINT), ("v", STRING), (SEQUENCE, BIGINT))


@dataclass(frozen=True)
class _Probe:
    """See `targets.check.Probe`: with a separate dataset."""

    to: BigQueryDestination
    session: BigQuerySession
    table: TargetTable

    @property
    def attempts(self) -> list[Attempt]:
        return [
            ("Sign-in", self._sign_in),
            ("Query jobs", self._query),
            ("Permission to create datasets", self._dataset),
            ("Permission to create tables", self._create),
            ("Load a file", self._load),
            ("Change rows in a transaction", self._change),
            ("Change columns", self._alter),
        ]

    @property
    def _dialect(self) -> BigQueryDialect:
        return BigQueryDialect(self.to)

    @property
    def _place(self) -> str:
        return self._dialect.place(self.table)

    def _sign_in(self) -> str:
        with explained(self.to):
            self.session.login.refresh(Request())
        return "Google issues a token."

    def _query(self) -> str:
        remedy = f"{enable(self.to.project, SERVICE)} && {grant(self.to.login, self.to.project, JOBS)}"
        with _remedy(remedy):
            self.session.query("SELECT 1")
        return f"Queries run in {self.to.location}."

    def _dataset(self) -> str:
        with _remedy(grant(self.to.login, self.to.project, DATASETS)):
            self.session.make_dataset(self.table.namespace)
        return "Datasets can be created."

    def _create(self) -> str:
        with _remedy(self._editor):
            self._dialect.create(self.session, self.table, _COLUMNS, ["id"], one=True)
        return "A table can be created."

    def _load(self) -> str:
        rows = pa.table({"id": [1, 2], "v": ["x", None], SEQUENCE: [0, 1]})
        with _remedy(self._editor):
            self.session.load(self._place, rows, self.table)
            self.session.discard()
        return "A Parquet file can be uploaded and loaded."

    def _change(self) -> str:
        with self.session.transaction():
            changed = self.session.execute(f"UPDATE {self._place} SET v = 'y' WHERE id = 1")
            deleted = self.session.execute(f"DELETE FROM {self._place} WHERE id = 2")
        if (int(changed), int(deleted)) != (1, 1):
            told = f"A transaction changed {int(changed)} and deleted {int(deleted)} rows instead of 1 and 1."
            raise TargetError(told, remedy="Report it with the location.")
        return "Rows can be changed and deleted in a transaction."

    def _alter(self) -> str:
        self._dialect.add_column(self.session, self.table, "w", BIGINT)
        self._dialect.rename_column(self.session, self.table, "w", "x")
        self._dialect.drop_column(self.session, self.table, "x")
        return "Columns can be added, renamed and dropped."

    @property
    def _editor(self) -> str:
        return grant(self.to.login, self.to.project, "roles/bigquery.dataEditor")

    def remove(self) -> None:
        with suppress(Exception):
            self.session.client.delete_dataset(
                self.table.namespace, delete_contents=True, not_found_ok=True, retry=None, timeout=30
            )


@contextmanager
def _remedy(command: str) -> Iterator[None]:
    """With the command to run where something is not allowed."""
    try:
        yield
    except TargetUnauthorized as error:
        raise TargetUnauthorized(error.message, remedy=command) from None


@contextmanager
def _connected(settings: Mapping[str, Any]) -> Iterator[tuple[BigQueryDestination, BigQuerySession]]:
    to = destination(settings)
    session = BigQuerySession(to)
    try:
        yield to, session
    finally:
        session.close()


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """All of them, up to the first that fails."""

    @contextmanager
    def opened() -> Iterator[_Probe]:
        with _connected(settings) as (to, session):
            yield _Probe(to, session, TargetTable(f"tidemark_test_{uuid.uuid4().hex[:12]}", "t"))

    return tried("Sign-in", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        with _connected(settings) as (to, session), explained(to):
            for dataset in islice(session.client.list_datasets(retry=RETRY, timeout=60), LOOKED_INTO):
                tables = session.client.list_tables(dataset.reference, retry=RETRY, timeout=60)
                yield any(one.table_id.startswith(POSITIONS) for one in tables)

    return written("project", ours)
