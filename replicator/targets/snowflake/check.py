"""The test of a Snowflake destination: one thing after the other, each with what to paste where it fails."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replicator.errors import TargetError
from replicator.sources.base import CheckResult
from replicator.targets.base import TargetTable
from replicator.targets.check import LOOKED_INTO, Attempt, tried, written
from replicator.targets.snowflake.config import SnowflakeDestination, destination
from replicator.targets.snowflake.connection import SnowflakeSession
from replicator.targets.snowflake.names import literal, quoted
from replicator.targets.warehouse.dialect import POSITIONS


@dataclass(frozen=True)
class _Probe:
    """See `targets.check.Probe`: with a separate schema."""

    one: SnowflakeDestination
    session: SnowflakeSession
    schema: str

    @property
    def attempts(self) -> list[Attempt]:
        return [
            ("Connection", self._connection),
            ("Warehouse", self._warehouse),
            ("Database", self._database),
            ("Privilege to create schemas", self._schema),
            ("Privilege to create tables", self._create),
            ("Load a file", self._load),
            ("Change rows in a transaction", self._change),
            ("Temporary tables", self._temporary),
        ]

    @property
    def _database_name(self) -> str:
        return quoted(self.one.database)

    @property
    def _role(self) -> str:
        return quoted(self.one.role) if self.one.role else "…"

    @property
    def _table(self) -> str:
        return f"{self._database_name}.{quoted(self.schema)}.{quoted('t')}"

    def _connection(self) -> str:
        ((version,),) = self.session.query("SELECT CURRENT_VERSION()")
        return f"Snowflake {version} answers."

    def _warehouse(self) -> str:
        warehouse = quoted(self.one.warehouse) if self.one.warehouse else "…"
        with _remedy(f"GRANT USAGE ON WAREHOUSE {warehouse} TO ROLE {self._role};"):
            self.session.query("SELECT COUNT(*) FROM (VALUES (1), (2))")
        return "The warehouse runs queries."

    def _database(self) -> str:
        with _remedy(f"GRANT USAGE, CREATE SCHEMA ON DATABASE {self._database_name} TO ROLE {self._role};"):
            self.session.query(f"SELECT 1 FROM {self._database_name}.INFORMATION_SCHEMA.SCHEMATA LIMIT 1")
        return f"The database {self.one.database} exists."

    def _schema(self) -> str:
        with _remedy(f"GRANT CREATE SCHEMA ON DATABASE {self._database_name} TO ROLE {self._role};"):
            self.session.execute(f"CREATE SCHEMA {self._database_name}.{quoted(self.schema)}")
        return "The role can create schemas."

    def _create(self) -> str:
        self.session.execute(f"CREATE TABLE {self._table} ({quoted('id')} NUMBER(19,0), {quoted('v')} VARCHAR)")
        self.session.execute(f"ALTER TABLE {self._table} ADD COLUMN {quoted('w')} NUMBER(10,0)")
        return "A table can be created and changed."

    def _load(self) -> str:
        rows = pa.table({"id": pa.array([1], pa.int64()), "v": ["x"]})
        with _remedy("Let the workers reach the store of Snowflake's stages over HTTPS: SELECT SYSTEM$ALLOWLIST();"):
            self.session.load(self._table, rows, TargetTable(self.schema, "t"))
        return "A file can be put into the user's stage and copied."

    def _change(self) -> str:
        with self.session.transaction():
            changed = self.session.execute(f"UPDATE {self._table} SET {quoted('v')} = 'y' WHERE {quoted('id')} = 1")
            self.session.execute(f"DELETE FROM {self._table}")
        return f"Rows can be changed and deleted: {changed} row."

    def _temporary(self) -> str:
        self.session.execute(
            f"CREATE TEMPORARY TABLE {self._table.removesuffix(quoted('t'))}{quoted('s')} ({quoted('id')} NUMBER(19,0))"
        )
        return "Temporary tables, in which changes are staged, can be created."

    def remove(self) -> None:
        with suppress(TargetError):
            self.session.execute(f"DROP SCHEMA IF EXISTS {self._database_name}.{quoted(self.schema)} CASCADE")


@contextmanager
def _remedy(grant: str) -> Iterator[None]:
    try:
        yield
    except TargetError as error:
        raise type(error)(error.message, remedy=grant) from None


@contextmanager
def _connected(settings: Mapping[str, Any]) -> Iterator[tuple[SnowflakeDestination, SnowflakeSession]]:
    one = destination(settings)
    session = SnowflakeSession(one)
    try:
        yield one, session
    finally:
        session.close()


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """All of them, up to the first that fails."""

    @contextmanager
    def opened() -> Iterator[_Probe]:
        with _connected(settings) as (one, session):
            yield _Probe(one, session, f"tidemark_test_{uuid.uuid4().hex[:12]}")

    return tried("Connection", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        with _connected(settings) as (one, session):
            yield bool(session.query(
                f"SELECT 1 FROM {quoted(one.database)}.INFORMATION_SCHEMA.TABLES"
                f" WHERE STARTSWITH(table_name, {literal(POSITIONS)}) LIMIT {LOOKED_INTO}"
            ))  # fmt: skip

    return written("database", ours)
