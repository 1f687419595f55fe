"""What a table has now, and its first rows, for pages."""

from __future__ import annotations

from contextlib import closing

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.kind import CELL, InspectedTable, Preview, QueryExample
from replicator.targets.snowflake.config import DOMAIN, SnowflakeDestination
from replicator.targets.snowflake.connection import SnowflakeSession
from replicator.targets.snowflake.dialect import SnowflakeDialect
from replicator.targets.snowflake.names import literal, quoted
from replicator.targets.warehouse.inspection import table_preview, table_report


def report(destination: SnowflakeDestination, table: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError.  It needs no running warehouse."""
    dialect = SnowflakeDialect(destination)
    with closing(SnowflakeSession(destination)) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        found = session.query(
            f"SELECT row_count, bytes FROM {quoted(destination.database)}.INFORMATION_SCHEMA.TABLES"
            f" WHERE table_schema = {literal(table.namespace)} AND table_name = {literal(table.name)}"
        )
        rows, size = found[0] if found else (0, 0)
    return table_report(
        f"{destination.where} {dialect.place(table)}",
        [name for name, _ in columns],
        examples(destination, table),
        sequence=SEQUENCE,
        rows=rows,
        size=size,
    )


def preview(destination: SnowflakeDestination, table: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    dialect = SnowflakeDialect(destination)
    with closing(SnowflakeSession(destination)) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        names = [name for name, _ in columns]
        shown = ", ".join(f"LEFT(TO_VARCHAR({quoted(name)}), {CELL + 3})" for name in names)
        found = session.query(f"SELECT {shown} FROM {dialect.place(table)} LIMIT {int(rows)}")
    return table_preview(names, found)


def examples(destination: SnowflakeDestination, table: TargetTable) -> list[QueryExample]:
    """In the order of the programs; none has a secret."""
    sql = f"SELECT * FROM {SnowflakeDialect(destination).place(table)} LIMIT 10;"
    options = {"account": destination.account, "user": destination.user, "password": "<password>"}
    if not destination.host.endswith(DOMAIN):
        options["host"] = destination.host
    listed = ", ".join(f"{name}={value!r}" for name, value in options.items())
    python = f"from snowflake import connector\n\nwith connector.connect({listed}) as db:\n"
    python += f"    print(db.cursor().execute({sql!r}).fetchall())"
    return [QueryExample("Snowsight", sql), QueryExample("snowflake-connector-python", python)]
