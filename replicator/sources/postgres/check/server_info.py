"""What the connection test knows of a server, asked once."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Any

from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, literal, quoted, read_rows, server_version


class Service(StrEnum):
    """Who runs the server: settings and roles have other names there."""

    OWN = "this server"
    RDS = "Amazon RDS or Aurora"
    CLOUD_SQL = "Google Cloud SQL"
    AZURE = "Azure Database for PostgreSQL"
    SUPABASE = "Supabase"
    NEON = "Neon"
    YUGABYTE = "YugabyteDB"


# A role that only this service has; Supabase before Amazon, where it runs.
_BY_ROLE = (
    ("supabase_admin", Service.SUPABASE),
    ("neon_superuser", Service.NEON),
    ("rds_superuser", Service.RDS),
    ("cloudsqlsuperuser", Service.CLOUD_SQL),
    ("azure_pg_admin", Service.AZURE),
    ("yb_db_admin", Service.YUGABYTE),
)


class Server:
    """A connection with the server's settings (as pg_settings has them, in their base units)."""

    def __init__(self, config: PostgresConfig, connection: Connection) -> None:
        self.config = config
        self.connection = connection
        self.version = server_version(connection)
        self.settings = {
            str(name): str(value) for name, value in self.rows("SELECT name, setting FROM pg_catalog.pg_settings")
        }
        self.roles = {str(row[0]) for row in self.rows("SELECT rolname::text FROM pg_catalog.pg_roles")}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Raises the errors of `connection.translated`."""
        return read_rows(self.connection, sql, self.config.where)

    def value(self, name: str) -> str:
        """A setting; empty where the server has none of that name."""
        return self.settings.get(name, "")

    def number(self, name: str, default: int = 0) -> int:
        """A setting that is a number."""
        return int(self.settings.get(name) or default)

    @property
    def major(self) -> int:
        return self.version // 10000

    @cached_property
    def service(self) -> Service:
        """The hosting service, recognized by the first of its typical roles that exists."""
        return next((service for role, service in _BY_ROLE if role in self.roles), Service.OWN)

    @cached_property
    def user(self) -> str:
        """The role in force, as an SQL identifier."""
        return quoted(str(self.rows("SELECT current_user::text")[0][0]))

    @cached_property
    def superuser(self) -> bool:
        return str(self.rows("SELECT pg_catalog.current_setting('is_superuser')")[0][0]) == "on"  # pg_settings lacks it

    def member_of(self, *roles: str) -> bool:
        """Of any of them, as far as they exist."""
        known = [role for role in roles if role in self.roles]
        return any(self.rows(f"SELECT pg_catalog.pg_has_role({literal(role)}, 'MEMBER')")[0][0] for role in known)

    def selected(self, tables: TableSet) -> list[TableId]:
        """Tables that are there and that the selection takes, single partitions included."""
        catalog = PostgresCatalog(self.connection, left_out=tables)
        names = {table for table in catalog.names() if table in tables}
        named = {table for table in catalog.names(partitions=True) if table in tables.tables and table in tables}
        return sorted(names | named)
