"""What a table has now, and its first rows, for pages."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace

from replicator.errors import TargetError
from replicator.model.schema import SEQUENCE
from replicator.sources.postgres.connection import literal
from replicator.targets.base import TargetTable
from replicator.targets.kind import CELL, InspectedTable, Preview, QueryExample
from replicator.targets.postgres.config import PostgresDestination
from replicator.targets.postgres.connection import PostgresSession
from replicator.targets.postgres.dialect import PostgresDialect
from replicator.targets.warehouse.inspection import table_preview, table_report

COUNT_SECONDS = 5  # a page waits no longer for an exact count


def report(destination: PostgresDestination, table: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError."""
    dialect = PostgresDialect(destination)
    with closing(_session(destination)) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        place = dialect.place(table)
        relation = f"{literal(place)}::pg_catalog.regclass"
        sql = f"SELECT pg_catalog.pg_total_relation_size({relation}), reltuples FROM pg_catalog.pg_class"
        size, estimate = session.query(f"{sql} WHERE oid = {relation}")[0]
        rows = max(int(estimate), 0)
        with suppress(TargetError):
            rows = int(session.query(f"SELECT pg_catalog.count(*) FROM {place}")[0][0])
    return table_report(
        f"{destination.server.where} {place}",
        [name for name, _ in columns],
        examples(destination, table),
        sequence=SEQUENCE,
        rows=rows,
        size=size,
    )


def preview(destination: PostgresDestination, table: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    dialect = PostgresDialect(destination)
    with closing(_session(destination)) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        names = [name for name, _ in columns]
        shown = ", ".join(f"pg_catalog.left({dialect.quoted(name)}::text, {CELL + 3})" for name in names)
        found = session.query(f"SELECT {shown} FROM {dialect.place(table)} LIMIT {rows}")
    return table_preview(names, found)


def examples(destination: PostgresDestination, table: TargetTable) -> list[QueryExample]:
    """In the order of the programs; each asks for the password itself."""
    server, dialect = destination.server, PostgresDialect(destination)
    sql = f"SELECT * FROM {dialect.place(table)} LIMIT 10;"
    address = {
        "host": server.host, "port": str(server.port), "dbname": server.database, "user": server.user,
        "sslmode": str(server.tls),
    }  # fmt: skip
    text = " ".join(f"{name}={_value(value)}" for name, value in address.items())
    python = f"import psycopg\n\nwith psycopg.connect({text!r}, password='<password>') as db:\n"
    python += f"    print(db.execute({sql!r}).fetchall())"
    shell = "'" + text.replace("'", "'\\''") + "'"
    return [QueryExample("psql", f"psql {shell}\n\n{sql}"), QueryExample("psycopg", python)]


def _value(text: str) -> str:
    """As libpq reads it in a connection string."""
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return plain if plain == text and text and " " not in text else f"'{plain}'"


def _session(destination: PostgresDestination) -> PostgresSession:
    return PostgresSession(replace(destination.server, statement_timeout=COUNT_SECONDS))
