"""Snowflake as a dialect: every definition commits immediately, no key is enforced, staging tables are temporary."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, SupportsInt, cast

import pyarrow as pa

from replicator.errors import TargetError
from replicator.model.schema import OPERATION, SEQUENCE
from replicator.model.types import FLOAT, STRING, DataType
from replicator.targets.base import TargetTable
from replicator.targets.snowflake.config import SnowflakeDestination
from replicator.targets.snowflake.names import found_type, literal, quoted, snowflake_type
from replicator.targets.warehouse.dialect import DELETE, POSITIONS, Columns, Dialect, Session

if TYPE_CHECKING:
    from replicator.targets.snowflake.connection import SnowflakeSession

STAGE = "_tidemark_stage_"
RESERVED = 4  # staging tables of a transaction that stages, too: a part of a batch needs three at most
MAX_NAME = 255
_DAY = re.compile(r"tidemark/(\d{8})/")
DAYS_LEFT = 2  # files of an attempt that failed are deleted after so long


class SnowflakeDialect(Dialect):
    """See `Dialect`."""

    title = "Snowflake"
    stepwise = True

    def __init__(self, destination: SnowflakeDestination) -> None:
        self._destination, self._cleaned = destination, False

    def connect(self) -> Session:
        from replicator.targets.snowflake.connection import SnowflakeSession  # noqa: PLC0415 - the client is loaded here

        return SnowflakeSession(self._destination)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def literal(self, value: str | int | datetime | None) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, datetime):
            return f"TO_TIMESTAMP_LTZ({literal(value.isoformat(sep=' '))})"
        return str(value) if isinstance(value, int) else literal(value)

    def type_name(self, kind: DataType) -> str:
        return snowflake_type(kind)

    def refused_column(self, name: str) -> str:
        return refused_column(name)

    def place(self, table: TargetTable) -> str:
        return f"{quoted(self._destination.database)}.{super().place(table)}"

    def positions(self, table: TargetTable) -> TargetTable:
        """An UPDATE locks a table: one for each target table, so that tables do not wait for each other."""
        name = blake2b(table.name.encode(), digest_size=8).hexdigest()
        return TargetTable(table.namespace, f"{POSITIONS}_{name}")

    def columns(self, session: Session, table: TargetTable) -> list[tuple[str, DataType | None]] | None:
        found = session.query(
            "SELECT column_name, data_type, numeric_precision, numeric_scale"
            f" FROM {quoted(self._destination.database)}.INFORMATION_SCHEMA.COLUMNS"
            f" WHERE table_schema = {literal(table.namespace)} AND table_name = {literal(table.name)}"
            " ORDER BY ordinal_position"
        )
        return [(str(name), found_type(str(kind), *numbers)) for name, kind, *numbers in found] or None

    def prepare(self, session: Session, table: TargetTable) -> None:
        """The role needs the right to make schemas only where one is missing."""
        if not self._cleaned:
            self._clean(session)
        there = session.query(
            f"SELECT 1 FROM {quoted(self._destination.database)}.INFORMATION_SCHEMA.SCHEMATA"
            f" WHERE schema_name = {literal(table.namespace)}"
        )
        if not there:
            session.execute(
                f"CREATE SCHEMA IF NOT EXISTS {quoted(self._destination.database)}.{quoted(table.namespace)}"
            )

    def _clean(self, session: Session) -> None:
        """Files of attempts that ended before COPY: those of the day before yesterday and earlier."""
        from replicator.targets.snowflake.connection import STAGE as FILES  # noqa: PLC0415 - the client is loaded here

        oldest = f"{datetime.now(UTC) - timedelta(days=DAYS_LEFT - 1):%Y%m%d}"
        with suppress(TargetError):  # nothing depends on it
            days = {day for name, *_ in session.query(f"LIST {FILES}/") for day in _DAY.findall(str(name))}
            for day in sorted(one for one in days if one < oldest):
                session.query(f"REMOVE {FILES}/{day}/")
        self._cleaned = True

    def create(self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool) -> None:
        del key, one
        session.execute(f"CREATE TABLE {self.place(table)} ({self._defined(columns)})")

    def recreate(
        self, session: Session, table: TargetTable, columns: Columns, key: Sequence[str], *, one: bool
    ) -> None:
        """Readers see the one or the other, and keep their rights."""
        del key, one
        session.execute(f"CREATE OR REPLACE TABLE {self.place(table)} ({self._defined(columns)}) COPY GRANTS")

    def _defined(self, columns: Columns) -> str:
        return ", ".join(self.defined(name, kind) for name, kind in columns)

    def rename(self, session: Session, table: TargetTable, new: TargetTable) -> None:
        session.execute(f"ALTER TABLE {self.place(table)} RENAME TO {self.place(new)}")

    def stage(self, session: Session, table: TargetTable, rows: pa.Table) -> str:
        mine = cast("SnowflakeSession", session)
        if mine.reserved:
            stage = mine.reserved.pop(0)
            mine.reserved.append(stage)
            session.execute(f"DELETE FROM {stage}")
        else:
            stage = self._new_stage(mine, table, rows.column_names)
        session.load(stage, rows, table)
        return stage

    def reserve(self, session: Session, table: TargetTable) -> None:
        """With all columns: any rows have a place in them."""
        mine = cast("SnowflakeSession", session)
        names = [name for name, _ in self.columns(session, table) or ()]
        mine.reserved = [self._new_stage(mine, table, [*names, OPERATION]) for _ in range(RESERVED)]

    def _new_stage(self, session: SnowflakeSession, table: TargetTable, names: Sequence[str]) -> str:
        """Temporary: it ends with its session, and no other sees it."""
        kinds = dict(self.columns(session, table) or ())
        columns = [(name, kinds.get(name) or STRING) for name in names]
        stage = self.place(TargetTable(table.namespace, f"{STAGE}{uuid.uuid4().hex}"))
        session.execute(f"CREATE TEMPORARY TABLE {stage} ({self._defined(columns)})")
        session.stages.append(stage)
        return stage

    def discard(self, session: Session) -> None:
        mine = cast("SnowflakeSession", session)
        while mine.stages:
            session.execute(f"DROP TABLE IF EXISTS {mine.stages[-1]}")
            mine.stages.pop()
        mine.reserved.clear()

    def drop_older(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> None:
        """Snowflake evaluates few subqueries that look at the row outside: a join instead."""
        session.execute(
            f"DELETE FROM {stage} s USING {self.place(table)} t WHERE {self.matching(key)}"
            f" AND t.{quoted(SEQUENCE)} >= s.{quoted(SEQUENCE)}"
        )

    def carry(self, session: Session, table: TargetTable, stage: str, key: Sequence[str], names: Sequence[str]) -> None:
        values = ", ".join(f"{quoted(name)} = t.{quoted(name)}" for name in names)
        session.execute(f"UPDATE {stage} s SET {values} FROM {self.place(table)} t WHERE {self.matching(key)}")

    def delete_matching(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> tuple[int, int]:
        does = f"s.{quoted(OPERATION)}"
        ((updated, deleted),) = session.query(
            f"SELECT COUNT_IF({does} <> '{DELETE}'), COUNT_IF({does} = '{DELETE}')"
            f" FROM {self.place(table)} t JOIN {stage} s ON {self.matching(key)}"
        )
        session.execute(f"DELETE FROM {self.place(table)} t USING {stage} s WHERE {self.matching(key)}")
        return int(updated or 0), int(deleted or 0)

    def delete_versions(self, session: Session, table: TargetTable, stage: str, key: Sequence[str]) -> SupportsInt:
        return session.execute(
            f"DELETE FROM {self.place(table)} t USING {stage} s WHERE {self.matching([*key, SEQUENCE])}"
        )

    def delete_equal(self, session: Session, table: TargetTable, stage: str, names: Sequence[str]) -> SupportsInt:
        """Snowflake's equality has one NaN, and one zero of two: the sign of zero is looked at besides."""
        kinds = dict(self.columns(session, table) or ())
        signs = [name for name in names if (kind := kinds.get(name)) and self.type_name(kind) == self.type_name(FLOAT)]
        told = [quoted(name) for name in names]
        told += [f"IFF({quoted(name)} = 0 AND TO_VARCHAR({quoted(name)}) LIKE '-%', 1, 0)" for name in signs]
        values = ", ".join(f"{one} AS v{number}" for number, one in enumerate(told))
        number = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(told)} ORDER BY"
        same = " AND ".join(f"t.v{number} IS NOT DISTINCT FROM s.v{number}" for number in range(len(told)))
        place, sequence = self.place(table), quoted(SEQUENCE)
        return session.execute(
            f"DELETE FROM {place} d USING (SELECT t.q AS q FROM"
            f" (SELECT {values}, {sequence} AS q, {number} {sequence}) AS n FROM {place}) t"
            f" JOIN (SELECT {values}, {number} 1) AS n FROM {stage}) s ON t.n = s.n AND {same}) x"
            f" WHERE d.{sequence} = x.q"
        )


def refused_column(name: str) -> str:
    """See `TargetKind`."""
    return f"Its name has more than {MAX_NAME} characters." if len(name) > MAX_NAME else ""
