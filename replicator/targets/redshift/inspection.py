"""What a table has now, and its first rows, for pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.kind import InspectedTable, Preview, QueryExample
from replicator.targets.redshift.aws import Aws
from replicator.targets.redshift.config import RedshiftDestination
from replicator.targets.redshift.connection import RedshiftSession
from replicator.targets.redshift.dialect import RedshiftDialect
from replicator.targets.redshift.sql import literal
from replicator.targets.warehouse.inspection import table_preview, table_report

PAGE_SECONDS = 5  # a page waits no longer for a statement
MEBIBYTE = 1024 * 1024


def report(to: RedshiftDestination, table: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError."""
    dialect = RedshiftDialect(to)
    with _session(to) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        place = dialect.place(table)
        ((rows,),) = session.query(f"SELECT COUNT(*) FROM {place}")
        # A table without rows is not listed; the size is in blocks of 1 MiB.
        size = session.query(
            f'SELECT size FROM svv_table_info WHERE "schema" = {literal(table.namespace)}'
            f' AND "table" = {literal(table.name)}'
        )  # fmt: skip
    return table_report(
        f"{to.where} {place}",
        [name for name, _ in columns],
        examples(to, table),
        sequence=SEQUENCE,
        rows=rows,
        size=int(size[0][0]) * MEBIBYTE if size else 0,
    )


def preview(to: RedshiftDestination, table: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    dialect = RedshiftDialect(to)
    with _session(to) as session:
        columns = dialect.columns(session, table)
        if columns is None:
            return None
        names = [name for name, _ in columns]
        found = session.query(f"SELECT {dialect.listed(names)} FROM {dialect.place(table)} LIMIT {rows}")
    return table_preview(names, found)


def examples(to: RedshiftDestination, table: TargetTable) -> list[QueryExample]:
    """In the order of the programs; the password is asked for, or stands as `<password>`."""
    sql = f"SELECT * FROM {RedshiftDialect(to).place(table)} LIMIT 10;"
    editor = f"SET enable_case_sensitive_identifier TO true;\n{sql}"
    python = (
        f"import redshift_connector\n\nwith redshift_connector.connect(host={to.host!r}, port={to.port},"
        f" database={to.database!r}, user='<user>', password='<password>') as db:\n"
        f"    print(db.cursor().execute({sql!r}).fetchall())"
    )
    return [QueryExample("Query editor", editor), QueryExample("redshift_connector", python)]


@contextmanager
def _session(to: RedshiftDestination) -> Iterator[RedshiftSession]:
    with closing(RedshiftSession(to, Aws(to))) as session:
        session.execute(f"SET statement_timeout TO {PAGE_SECONDS * 1000}")
        yield session
