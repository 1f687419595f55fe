"""Postgres as a source under test."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg2

from tests.crash.sources.base import SourceUnderTest
from webapp.embedded.java_artifacts import POSTGRES
from webapp.embedded.postgres_source import VERSION, EmbeddedPostgresSource

# Transactions of some hundred rows are large ones to the server: streamed before their end (from 14), or spilled.
SMALL_MEMORY = {"logical_decoding_work_mem": "64kB"}


class Postgres(SourceUnderTest):
    """Each history has a separate database, because publications and slots belong to a database, and in it a schema of
    the same name.
    """

    dialect = "postgres"
    kind = "postgres"
    errors: ClassVar[tuple[type[Exception], ...]] = (psycopg2.Error,)
    tls_off = "disable"

    def __init__(self, folder: Path, version: str = "", *, caseless: bool = False) -> None:
        """`version`: as in `POSTGRES`, or its major part."""
        del caseless
        known = {name.partition(".")[0]: name for name in POSTGRES}
        full = known.get(version, version) or VERSION
        self.version = int(full.partition(".")[0])
        self.server = EmbeddedPostgresSource(folder, version=full, options=SMALL_MEMORY)

    def connect(self, name: str | None = None) -> Any:
        if name is None:
            return self.server.connect()
        return self.server.connect(dbname=name, options=f"-csearch_path={name}")

    def make(self, name: str) -> None:
        self.execute(f'CREATE DATABASE "{name}"')
        self.execute(f'CREATE SCHEMA "{name}"', name=name)

    def drop(self, name: str) -> None:
        """Inactive slots are dropped with their database."""
        self.execute(f'DROP DATABASE "{name}" (FORCE)')

    def tables(self, name: str) -> set[str]:
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
                "AND relkind IN ('r', 'p') AND NOT relispartition"
            )
            return {row[0] for row in cursor.fetchall()}

    def unfollowable(self, name: str) -> set[str]:
        """For example, the transaction that made or renamed a table was refused, and a later one changed the replica
        identity of the old table.

        Each partition of a partitioned table has a separate replica identity.
        """
        with closing(self.connect(name)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND"
                " (relreplident = 'n' OR relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid ="
                " pg_class.oid AND indisprimary)) UNION SELECT p.relname FROM pg_class p CROSS JOIN"
                " pg_partition_tree(p.oid) t JOIN pg_class l ON l.oid = t.relid WHERE p.relnamespace ="
                " current_schema()::regnamespace AND p.relkind = 'p' AND t.isleaf AND l.relreplident <> 'f' AND"
                " (p.relreplident = 'f' OR l.relreplident = 'n' OR l.relreplident = 'd' AND NOT EXISTS (SELECT FROM"
                " pg_index WHERE indrelid = l.oid AND indisprimary))"
            )
            return {row[0] for row in cursor.fetchall()}

    def one_of(self, verb: str, table: str, where: str) -> str:
        return f"{verb} WHERE ctid = (SELECT ctid FROM {table} WHERE {where} LIMIT 1)"

    def made_keyless(self, create: str, table: str) -> tuple[str, ...]:
        return (create, f"ALTER TABLE {table} REPLICA IDENTITY FULL")

    def address(self, name: str, port: int) -> dict[str, Any]:
        known = self.server.address
        return {
            "host": known["host"], "port": port, "user": known["user"], "password": known["password"], "database": name,
            "tls": self.tls_off,
        }  # fmt: skip
