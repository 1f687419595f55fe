"""The one table that Tidemark writes on the source: a row for each replicator, whose captured changes are the marks."""

from __future__ import annotations

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import literal, quoted

TABLE = "watermark"
MAX_REPLICATOR, MAX_TOKEN = 64, 255


def watermark_table(schema: str) -> TableId:
    """Where marks are written."""
    return TableId(schema, TABLE)


def create_statements(schema: str, table: str = TABLE, key: str = "replicator") -> tuple[str, ...]:
    """SQL that makes schema and table where they are missing; also the remedy that the user can paste."""
    make, name = f"CREATE SCHEMA {quoted(schema)}", quoted(schema, table)
    columns = (
        f"replicator nvarchar({MAX_REPLICATOR}) COLLATE Latin1_General_BIN2 NOT NULL, "
        f"token nvarchar({MAX_TOKEN}) COLLATE Latin1_General_BIN2 NOT NULL, PRIMARY KEY ({key})"
    )
    return (
        f"IF SCHEMA_ID({literal(schema)}) IS NULL EXEC({literal(make)})",
        f"IF OBJECT_ID({literal(name)}, N'U') IS NULL CREATE TABLE {name} ({columns})",
    )


def check_mark(replicator: str, token: str) -> None:
    """Raises ConfigurationError, ValueError for what the table does not hold."""
    if len(replicator) > MAX_REPLICATOR:
        raise ConfigurationError(f"The replicator's name has more than {MAX_REPLICATOR} characters.")
    if len(token) > MAX_TOKEN:
        raise ValueError(f"A mark has at most {MAX_TOKEN} characters.")


def write_mark(connection: SqlServerSession, schema: str, replicator: str, token: str) -> None:
    """Returns when the mark is committed.  `connection` is in autocommit: a statement is a transaction."""
    check_mark(replicator, token)
    name, ours = quoted(schema, TABLE), literal(replicator)
    connection.run(
        f"UPDATE {name} SET token = {literal(token)} WHERE replicator = {ours}; "
        f"IF @@ROWCOUNT = 0 INSERT INTO {name} (replicator, token) VALUES ({ours}, {literal(token)})",
        connection.where,
    )


def forget(connection: SqlServerSession, schema: str, replicator: str) -> None:
    """Remove the replicator's row; no error where there is nothing."""
    connection.run(
        f"IF OBJECT_ID({literal(quoted(schema, TABLE))}, N'U') IS NOT NULL "
        f"DELETE FROM {quoted(schema, TABLE)} WHERE replicator = {literal(replicator)}",
        connection.where,
    )
