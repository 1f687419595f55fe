"""The dialects that histories are made for and played in."""

from __future__ import annotations

from replicator.testing import mysql, postgres
from replicator.testing.draft import Grammar
from replicator.testing.driving import Driver
from replicator.testing.mysql.driver import MySQLDriver
from replicator.testing.postgres.driver import PostgresDriver
from replicator.testing.workload import Dialect


def grammar(dialect: Dialect, version: int | None = None) -> Grammar:
    """`version`: of Postgres; what is newer does not occur."""
    if dialect == "postgres":
        return postgres.grammar(version)
    return mysql.grammar(dialect)


def driver(dialect: Dialect) -> Driver:
    """How its statements are sent."""
    return PostgresDriver() if dialect == "postgres" else MySQLDriver()
