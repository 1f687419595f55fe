"""The test of a Spanner destination: one thing after the other, each with what to paste where it fails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator.errors import TargetConflict, TargetError
from replicator.sources.base import CheckResult
from replicator.targets.base import TargetTable
from replicator.targets.check import LOOKED_INTO, Attempt, tried, written
from replicator.targets.google_login import enable, signed_in
from replicator.targets.spanner.config import SpannerDestination, destination
from replicator.targets.spanner.connection import ALL, SpannerSession, change, delete, put
from replicator.targets.spanner.names import POSITIONS, api_name
from replicator.targets.spanner.values import encoded


@dataclass(frozen=True)
class _Probe:
    """See `targets.check.Probe`: with a separate schema."""

    session: SpannerSession
    table: TargetTable

    @property
    def attempts(self) -> list[Attempt]:
        return [
            ("Connection", self._connection),
            ("Read definitions", self._read),
            ("Create schemas and tables", self._create),
            ("Change rows in a transaction", self._change),
            ("Change columns", self._alter),
        ]

    @property
    def _one(self) -> SpannerDestination:
        return self.session.destination

    @property
    def _place(self) -> str:
        return f"`{self.table.namespace}`.`{self.table.name}`"

    def _connection(self) -> str:
        self.session.query("SELECT 1")
        return f"{self._one.where} answers."

    def _read(self) -> str:
        with _remedy(self._one, "databaseReader"):
            found = self.session.query(
                "SELECT option_value FROM information_schema.database_options WHERE option_name = 'database_dialect'"
            )
        if found and found[0][0] != "GOOGLE_STANDARD_SQL":
            create = f"gcloud spanner databases create NAME --instance={self._one.instance}"
            raise TargetError("The database is in the PostgreSQL dialect; Tidemark needs GoogleSQL.", remedy=create)
        return "The definitions can be read; the database is in the GoogleSQL dialect."

    def _create(self) -> str:
        with _remedy(self._one, "databaseUser"):
            self._define(f"CREATE SCHEMA `{self.table.namespace}`")
            self._define(f"CREATE TABLE {self._place} (id INT64, v STRING(MAX)) PRIMARY KEY (id)")
        return "A schema and a table can be created."

    def _change(self) -> str:
        place = api_name(self.table)
        rows = encoded(pa.table({"id": pa.array([1], pa.int64()), "v": ["x"]}))
        with _remedy(self._one, "databaseUser"):
            self.session.transact(lambda _: [put(place, ["id", "v"], rows)])

            def work(read: Any) -> list[Any]:
                assert read(place, ["v"], ALL)
                return [change(place, ["id", "v"], rows), delete(place, ALL)]

            self.session.transact(work)
        return "Rows can be read, written and deleted in one transaction."

    def _alter(self) -> str:
        with _remedy(self._one, "databaseUser"):
            self._define(f"ALTER TABLE {self._place} ADD COLUMN w INT64")
            self._define(f"ALTER TABLE {self._place} DROP COLUMN v")
        return "Columns can be added and dropped."

    def _define(self, statement: str) -> None:
        self.session.define([statement], f"t{uuid.uuid4().hex}")

    def remove(self) -> None:
        for statement in (f"DROP TABLE {self._place}", f"DROP SCHEMA `{self.table.namespace}`"):
            with suppress(TargetError):
                self._define(statement)


@contextmanager
def _remedy(one: SpannerDestination, role: str) -> Iterator[None]:
    try:
        yield
    except TargetConflict:
        raise
    except TargetError as error:
        raise type(error)(error.message, remedy=_grant(one, role)) from None


def _grant(one: SpannerDestination, role: str) -> str:
    member = f"serviceAccount:{signed_in(one.settings)}"
    return (
        f"gcloud spanner databases add-iam-policy-binding {one.database} --instance={one.instance}"
        f" --project={one.project} --member={member} --role=roles/spanner.{role}"
    )


@contextmanager
def _connected(settings: Mapping[str, Any]) -> Iterator[SpannerSession]:
    one = destination(settings)
    try:
        session = SpannerSession(one)
    except TargetError as error:
        if "has not been used" in error.message or "is disabled" in error.message:
            raise type(error)(error.message, remedy=enable(one.project, "spanner.googleapis.com")) from None
        if error.code == "target_unauthorized" and "does not allow" in error.message:
            raise type(error)(error.message, remedy=_grant(one, "databaseUser")) from None
        raise
    try:
        yield session
    finally:
        session.close()


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """All of them, up to the first that fails."""

    @contextmanager
    def opened() -> Iterator[_Probe]:
        with _connected(settings) as session:
            yield _Probe(session, TargetTable(f"tidemark_test_{uuid.uuid4().hex[:12]}", "t"))

    return tried("Connection", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        with _connected(settings) as session:
            yield bool(session.query(
                f"SELECT 1 FROM information_schema.tables WHERE table_name = '{POSITIONS}' LIMIT {LOOKED_INTO}"
            ))  # fmt: skip

    return written("database", ours)
