"""Marks in the log: logical messages, which need no table on the source.

PostgreSQL 13 has none in pgoutput; a table with a row for each replicator is used there.  A mark is a separate
transaction, so that its commit flushes it, and its place in the log is that of the commit.
"""

from __future__ import annotations

from replicator.errors import SourcePermissionDenied, TableDisappeared
from replicator.model.identifiers import TableId
from replicator.sources.postgres.connection import Connection, literal, server_version, translated

MESSAGES_SINCE = 140000
PREFIX = "tidemark"
MAX_BYTES = 1_000  # of a mark
SCHEMA, TABLE = "tidemark", "watermark"


def needs_table(connection: Connection) -> bool:
    """True for a server whose log has no messages for us."""
    return server_version(connection) < MESSAGES_SINCE


def watermark_table() -> TableId:
    """Return the table for marks if there are no messages; its columns are `replicator` and `token`, both text."""
    return TableId(SCHEMA, TABLE)


def create_statements() -> tuple[str, ...]:
    """SQL that makes schema and table where they are missing; also the remedy that the user can paste."""
    return (
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
        f"CREATE TABLE IF NOT EXISTS {SCHEMA}.{TABLE} (replicator text PRIMARY KEY, token text NOT NULL)",
    )


def content(replicator: str, token: str) -> str:
    """Of a mark's message."""
    return f"{replicator}|{token}"


def token_of(text: str, replicator: str) -> str | None:
    """Inverse of `content`; None for another replicator's."""
    name, _, token = text.partition("|")
    return token if name == replicator else None


def write_mark(connection: Connection, replicator: str, token: str, where: str) -> None:
    """Returns when the mark is in the log, flushed.  `connection` is in autocommit."""
    with translated(where), connection.cursor() as cursor:
        if needs_table(connection):
            cursor.execute(
                f"INSERT INTO {SCHEMA}.{TABLE} (replicator, token) VALUES ({literal(replicator)}, {literal(token)}) "
                "ON CONFLICT (replicator) DO UPDATE SET token = excluded.token"
            )
        else:
            message = literal(content(replicator, token))
            cursor.execute(f"SELECT pg_catalog.pg_logical_emit_message(true, '{PREFIX}', {message})")


def forget(connection: Connection, replicator: str) -> None:
    """Remove what marks have left; no error where there is nothing."""
    if not needs_table(connection):
        return
    try:
        with translated(watermark_table()), connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {SCHEMA}.{TABLE} WHERE replicator = {literal(replicator)}")
    except (TableDisappeared, SourcePermissionDenied):
        return
