"""A source that needs no server: fixed databases, thousands of tables, every support of the assessment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from replicator.errors import (
    ConditionRefused,
    ConfigurationError,
    SourceAuthenticationFailed,
    TableError,
    UnsupportedType,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.model.types import BIGINT, INT, STRING, TIMESTAMP_NTZ, decimal
from replicator.sources.base import CheckResult, CheckStatus, DatabaseInfo, FormField, KeyRange, ReadOptions, TableInfo

FORM = (
    FormField("host", "Host", help="Name or address of the server whose log is read."),
    FormField("port", "Port", kind="number", default="3306"),
    FormField("user", "User", default="tidemark"),
    FormField("password", "Password", kind="password", required=False, secret=True),
    FormField(
        "tls", "TLS", kind="choice", default="preferred", choices=(("disabled", "Off"), ("preferred", "If offered"))
    ),
    FormField("ca", "CA certificate (PEM)", kind="textarea", required=False, help="Empty: the system's authorities."),
)
SHOP = ("customers", "orders", "order_items", "products", "payments", "audit_trail", "geo_areas", "daily_totals")
MANY = 2400


def _tables() -> list[TableInfo]:
    shop = [
        TableInfo(TableId("shop", name), 1800 * 7**index, 96_000 * 7**index, "" if name == "audit_trail" else "primary")
        for index, name in enumerate(SHOP)
    ]
    crm = [
        TableInfo(TableId("crm", f"{word}_{n}"), 5000 * n, 800_000 * n, "unique")
        for word in ("lead", "note")
        for n in range(1, 9)
    ]
    archive = [TableInfo(TableId("archive", f"events_{n:05}"), 120_000, 9_000_000, "primary") for n in range(MANY)]
    return sorted(shop + crm + archive, key=lambda info: info.table)


class FakeCatalog:
    """Discovery over the fixed tables."""

    def databases(self) -> list[DatabaseInfo]:
        """Three of them."""
        found: dict[str, list[TableInfo]] = {}
        for info in _tables():
            found.setdefault(info.table.database, []).append(info)
        return [DatabaseInfo(name, len(infos), sum(i.bytes for i in infos)) for name, infos in sorted(found.items())]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        """By name."""
        found = [i for i in _tables() if database in {None, i.table.database} and search.lower() in i.table.name]
        return found[offset : offset + limit], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        return {info.table: info for info in _tables() if info.table in tables}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        del table
        if "nothing" in rows.condition:
            raise ConditionRefused("The source rejected the request: there is no column nothing.")

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema | TableError]:
        """`geo_areas` cannot be replicated; `payments` with a remark."""
        known = {info.table for info in _tables()}
        return {table: self._describe(table) for table in tables if table in known}

    def _describe(self, table: TableId) -> TableSchema | TableError:
        if table.name == "geo_areas":
            return UnsupportedType(
                "The column outline has the type vector(3), which Tidemark does not know.", table=str(table)
            )
        columns = [
            Column("id", BIGINT, nullable=False, source_type="bigint(20) unsigned"),
            Column("customer_id", INT, nullable=False, source_type="int(11)"),
            Column("note", STRING, nullable=True, source_type="varchar(200)"),
            Column("amount", decimal(12, 2), nullable=True, source_type="decimal(12,2)"),
            Column("created_at", TIMESTAMP_NTZ, nullable=True, source_type="datetime(6)"),
        ]
        if table.name == "payments":
            wide = "65 digits do not fit into a decimal of the target: kept exactly, as text."
            columns.append(Column("exact", STRING, nullable=True, source_type="decimal(65,10)", warning=wide))
        return TableSchema(table, tuple(columns), () if table.name == "audit_trail" else ("id",))


class FakeSource:
    """Passes the test; with the password `wrong` it is refused; the host `bare` lacks two settings."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """ConfigurationError without a host."""
        if not settings.get("host"):
            message = "The connection has no host."
            raise ConfigurationError(message)
        self.settings = settings

    def check(self, tables: TableSet | None = None) -> list[CheckResult]:
        """Named checks, some with a remedy."""
        del tables
        if self.settings.get("password") == "wrong":
            error = SourceAuthenticationFailed("Access denied for user tidemark.")
            return [
                CheckResult("reachable", "Reachable", CheckStatus.OK, "The server answers."),
                CheckResult("login", "Sign-in", CheckStatus.FAILED, error.message, error.remedy),
                CheckResult("log_bin", "Binary log", CheckStatus.SKIPPED, "Not checked: no sign-in."),
            ]
        bare = self.settings["host"] == "bare"
        return [
            CheckResult("reachable", "Reachable", CheckStatus.OK, "MariaDB 11.4.5 answers in 2 ms."),
            CheckResult("grants", "Grants", CheckStatus.OK, "REPLICATION SLAVE, REPLICATION CLIENT, SELECT."),
            CheckResult(
                "row_format",
                "Row format",
                CheckStatus.FAILED if bare else CheckStatus.OK,
                "binlog_format is STATEMENT." if bare else "binlog_format is ROW.",
                "SET GLOBAL binlog_format = 'ROW';\n-- and in my.cnf below [mysqld]: binlog_format = ROW"
                if bare
                else "",
            ),
            CheckResult(
                "retention",
                "Log retention",
                CheckStatus.WARNING,
                "The log is retained for 1 day.",
                "SET GLOBAL binlog_expire_logs_seconds = 604800;",
            ),
            CheckResult("clock", "Clock", CheckStatus.OK, "1 ms apart."),
        ]

    def catalog(self) -> FakeCatalog:
        """Discovery."""
        if self.settings.get("password") == "wrong":
            message = "Access denied for user tidemark."
            raise SourceAuthenticationFailed(message)
        return FakeCatalog()

    def names(self) -> NameRule:
        return EXACT_NAMES

    def log(self, replicator: str) -> Any:
        """Never asked by the pages."""
        raise NotImplementedError(replicator)

    def log_reader(self, replicator: str, options: ReadOptions) -> Any:
        """Never asked by the pages."""
        raise NotImplementedError(replicator, options, datetime.now(UTC))

    def snapshot_reader(self, replicator: str, options: ReadOptions) -> Any:
        """Never asked by the pages."""
        raise NotImplementedError(replicator, options)

    def close(self) -> None:
        """Nothing is open."""
