"""The dialects that histories are made for and played in."""

from __future__ import annotations

from testing.workload import mysql, oracle, postgres, sqlserver
from testing.workload.drivers import Driver
from testing.workload.model import Grammar
from testing.workload.mysql.driver import MySQLDriver
from testing.workload.oracle.driver import OracleDriver
from testing.workload.postgres.driver import PostgresDriver
from testing.workload.workload import Dialect


def grammar(dialect: Dialect, version: int | None = None) -> Grammar:
    """`version`: of Postgres; what is newer does not occur."""
    if dialect == "postgres":
        return postgres.grammar(version)
    if dialect == "oracle":
        return oracle.grammar()
    if dialect == "sqlserver":
        return sqlserver.grammar()
    return mysql.grammar(dialect)


def driver(dialect: Dialect) -> Driver:
    """How its statements are sent."""
    if dialect == "oracle":
        return OracleDriver()
    if dialect == "sqlserver":
        from testing.workload.sqlserver.driver import SqlServerDriver  # noqa: PLC0415 - its driver is an extra

        return SqlServerDriver()
    return PostgresDriver() if dialect == "postgres" else MySQLDriver()
