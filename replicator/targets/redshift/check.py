"""The test of a Redshift destination: what a replicator does, on a test table, one step after the other."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from replicator.errors import TargetError, TargetUnauthorized, TidemarkError
from replicator.model.schema import SEQUENCE
from replicator.model.types import BIGINT, STRING
from replicator.sources.base import CheckResult
from replicator.targets.base import TargetTable
from replicator.targets.check import Attempt, tried, written
from replicator.targets.redshift.aws import Aws
from replicator.targets.redshift.config import RedshiftDestination, destination
from replicator.targets.redshift.connection import RedshiftSession
from replicator.targets.redshift.dialect import POSITION, RedshiftDialect
from replicator.targets.redshift.sql import quoted


@dataclass
class _Probe:
    """See `Probe`."""

    to: RedshiftDestination
    session: RedshiftSession
    aws: Aws
    table: TargetTable = field(default_factory=lambda: TargetTable(f"tidemark_test_{uuid.uuid4().hex[:12]}", "t"))

    @property
    def attempts(self) -> list[Attempt]:
        user = quoted(str(self.session.query("SELECT current_user")[0][0]))
        database = quoted(self.to.database)
        create = f"GRANT CREATE ON DATABASE {database} TO {user};"
        temporary = f"GRANT TEMP ON DATABASE {database} TO {user};"
        return [
            ("Connection", self._reach),
            ("Privilege to create schemas", _granted(create, self._schema)),
            ("Table", _granted(create, self._table)),
            ("Staging bucket", self._bucket),
            ("Load", _granted(temporary, self._load)),
            ("Merge", self._merge),
        ]

    def remove(self) -> None:
        with suppress(TidemarkError):
            self.session.execute(f"DROP SCHEMA IF EXISTS {quoted(self.table.namespace)} CASCADE")

    @property
    def _dialect(self) -> RedshiftDialect:
        return RedshiftDialect(self.to)

    def _reach(self) -> str:
        version = str(self.session.query("SELECT version()")[0][0])
        return f"{version.partition(',')[0]} answers."

    def _schema(self) -> str:
        self._dialect.prepare(self.session, self.table)
        return "A schema can be made."

    def _table(self) -> str:
        columns = [("id", BIGINT), ("v", STRING), (SEQUENCE, BIGINT)]
        self._dialect.create(self.session, self.table, columns, ["id"], one=True)
        return "A table can be made."

    def _bucket(self) -> str:
        url = self.aws.put(pa.table({"id": [1]}))
        self.aws.delete(url)
        return f"A file can be written to s3://{self.to.bucket} and deleted."

    def _load(self) -> str:
        rows = pa.table({"id": [1, 2], "v": ["x", None], SEQUENCE: [0, 1]})
        done = self.session.load(self._dialect.place(self.table), rows, self.table)
        return f"COPY reads the bucket: {done} rows."

    def _merge(self) -> str:
        rows = pa.table({"id": [1], SEQUENCE: [0]})
        stage = self._dialect.stage(self.session, self.table, rows)
        with self.session.transaction():
            gone = self._dialect.delete_versions(self.session, self.table, stage, ["id"])
        self._dialect.discard(self.session)
        if gone != 1:
            raise TargetError(f"A merge changed {gone} rows instead of 1.", remedy="Report the version of Redshift.")
        return "Rows can be changed in a transaction."


def _granted(grant: str, attempt: Callable[[], str]) -> Callable[[], str]:
    """With the statement to run where a right is missing."""

    def done() -> str:
        try:
            return attempt()
        except TargetUnauthorized as error:
            raise TargetUnauthorized(error.message, remedy=f"{error.remedy} {grant}") from None

    return done


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """One line for each attempt; it ends with the first that fails."""

    @contextmanager
    def opened() -> Iterator[_Probe]:
        to = destination(settings)
        aws = Aws(to)
        session = RedshiftSession(to, aws)
        try:
            yield _Probe(to, session, aws)
        finally:
            session.close()

    return tried("Connection", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        to = destination(settings)
        session = RedshiftSession(to, Aws(to))
        try:
            sql = f"SELECT 1 FROM pg_catalog.pg_class WHERE LEFT(relname, {len(POSITION)}) = '{POSITION}' LIMIT 1"
            yield bool(session.query(sql))
        finally:
            session.close()

    return written("database", ours)
