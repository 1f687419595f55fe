"""Postgres as a warehouse in which each definition commits separately, to test that way on a real engine."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from replicator.model.types import STRING, DataType
from replicator.sources.postgres.connection import literal
from replicator.staging.storage import Storage
from replicator.targets.base import Target, TargetTable
from replicator.targets.postgres.config import destination
from replicator.targets.postgres.dialect import PostgresDialect
from replicator.targets.postgres.kind import CAPABILITIES
from replicator.targets.postgres.names import TEXT
from replicator.targets.warehouse.dialect import POSITIONS, Columns, Session
from replicator.targets.warehouse.target import WarehouseTarget
from webapp.embedded.postgres_source import EmbeddedPostgresSource


class StepwisePostgres(PostgresDialect):
    """Definitions stand outside of transactions, and each target table has a position table."""

    stepwise = True

    def positions(self, table: TargetTable) -> TargetTable:
        return TargetTable(table.namespace, f"{POSITIONS}_{uuid.uuid5(uuid.NAMESPACE_OID, table.name).hex[:16]}")

    def prepare(self, session: Session, table: TargetTable) -> None:
        if not session.query(f"SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {literal(table.namespace)}"):
            session.execute(f"CREATE SCHEMA IF NOT EXISTS {self.quoted(table.namespace)}")

    def cast(self, value: str | int, kind: DataType) -> str:
        return f'{self.literal(value)}::{TEXT} COLLATE pg_catalog."C"' if kind == STRING else super().cast(value, kind)

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        with session.transaction():
            super().create(session, table, columns, key, one=one)

    def recreate(
        self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool
    ) -> None:
        with session.transaction():
            self.drop(session, table)
            super().create(session, table, columns, key, one=one)

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        with session.transaction():
            super().rename(session, table, new)


def stepwise_target(server: EmbeddedPostgresSource, storage: Storage, replicator: str, keys: str = "indexed") -> Target:
    settings: dict[str, Any] = {
        "host": server.host, "port": server.port, "database": server.database, "user": server.user,
        "password": server.password, "keys": keys,
    }  # fmt: skip
    return WarehouseTarget(StepwisePostgres(destination(settings)), CAPABILITIES, storage, replicator)
