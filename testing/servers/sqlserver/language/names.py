"""What names mean: SQL Server compares them without case, Postgres with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from testing.servers.sqlserver.refusals import Refusal

Query = Callable[[str], Sequence[Sequence[Any]]]
_LOAD = """
    SELECT n.nspname, c.relname, c.oid, a.attname, k.name, a.atttypmod, a.attidentity <> '', a.attgenerated <> '',
        c.relkind, format_type(a.atttypid, a.atttypmod), l.collname, a.attnum
    FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v')
        AND NOT c.relispartition
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN ss.kinds k ON k.type = a.atttypid LEFT JOIN pg_collation l ON l.oid = a.attcollation
    WHERE n.nspname NOT IN ('ss', 'information_schema', 'pg_catalog', 'pg_toast', 'public')
        AND n.nspname NOT LIKE 'pg_%temp%'
    ORDER BY a.attrelid, a.attnum
"""


# What Azure SQL Database lacks, and what only it has, once a table is captured ("Change data capture (CDC) with Azure
# SQL Database").
_NOT_IN_AZURE = frozenset({("sys", "database_recovery_status"), ("sys", "dm_server_services")})
_JOBS = ("cdc", "cdc_jobs")


@dataclass
class ColumnName:
    """`modifier`: Postgres'.  `type`: as Postgres spells it, with its modifier."""

    name: str
    kind: str
    modifier: int
    identity: bool
    computed: bool
    type: str
    collation: str


@dataclass
class TableName:
    schema: str
    name: str
    oid: int
    columns: dict[str, ColumnName] = field(default_factory=dict)  # by name in small letters

    @property
    def sql(self) -> str:
        return f'"{_doubled(self.schema)}"."{_doubled(self.name)}"'


def _doubled(name: str) -> str:
    return name.replace('"', '""')


@dataclass(frozen=True)
class AliasType:
    """`type`: the base, as Postgres spells it; `required`: a column of it takes no NULL, unless it says so."""

    number: int
    type: str
    required: bool


class Names:
    """Of one database, as one session sees it."""

    def __init__(self, query: Query, database: str) -> None:
        self.database = database
        ((azure, captured),) = query("SELECT ss.azure(), EXISTS (SELECT FROM ss.captures)")
        self.azure = azure == "t"
        self._hidden = (_NOT_IN_AZURE if self.azure else frozenset()) | (
            frozenset() if self.azure and captured == "t" else {_JOBS}
        )
        self.default = query("SELECT coalesce(nullif(current_setting('tidemark.default_schema', true), ''), 'dbo')")[0][
            0
        ]
        self.aliases = {
            (schema.lower(), name.lower()): AliasType(int(number), kind, required == "t")
            for schema, name, number, kind, required in query(
                "SELECT schema, name, number, type, required FROM ss.alias_types"
            )
        }
        self.schemas: dict[str, str] = {}
        self.tables: dict[tuple[str, str], TableName] = {}
        self.by_oid: dict[int, TableName] = {}
        self.collations: dict[tuple[int, int], str] = {}
        for schema, table, oid, column, kind, modifier, identity, computed, _, spelled, collation, number in query(
            _LOAD
        ):
            self.schemas.setdefault(schema.lower(), schema)
            if table is None:
                continue
            key = (schema.lower(), table.lower())
            if key in self._hidden:
                continue
            if key not in self.tables:
                self.tables[key] = self.by_oid[int(oid)] = TableName(schema, table, int(oid))
            if column is not None:
                self.collations[int(oid), int(number)] = collation or ""
                self.tables[key].columns[column.lower()] = ColumnName(
                    column, kind or "?", int(modifier), identity == "t", computed == "t", spelled, collation or ""
                )

    def schema(self, name: str) -> str:
        """As it is spelled; Refusal 2760."""
        found = self.schemas.get((name or self.default).lower())
        if found is None:
            raise Refusal(
                2760,
                f'The specified schema name "{name}" either does not exist or you do not have permission to use it.',
            )
        return found

    def table(self, catalog: str, schema: str, name: str) -> TableName:
        """Refusal 208."""
        given = ".".join(part for part in (catalog, schema, name) if part)
        if catalog and catalog.lower() != self.database.lower():
            if self.azure:
                raise Refusal(
                    40515,
                    f"Reference to database and/or server name in '{given}' is not supported in this version of SQL"
                    " Server.",
                    15,
                )
            if (catalog.lower(), (schema or "dbo").lower()) != ("msdb", "dbo"):
                raise Refusal(911, f"The emulator reads one database at a time, not {given}.")
            schema = "msdb"
        found = self.tables.get(((schema or self.default).lower(), name.lower())) or (
            None if schema else self.tables.get(("dbo", name.lower()))
        )
        if found is None:
            raise Refusal(208, f"Invalid object name '{given}'.")
        return found
