"""What a table has now, and its first rows, for pages: by the API's own calls, which cost nothing."""

from __future__ import annotations

from contextlib import closing

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import BigQueryDestination
from replicator.targets.bigquery.connection import RETRY, BigQuerySession
from replicator.targets.bigquery.dialect import BigQueryDialect
from replicator.targets.bigquery.failures import explained
from replicator.targets.kind import InspectedTable, Preview, QueryExample
from replicator.targets.warehouse.inspection import table_preview, table_report

PAGE_SECONDS = 15.0


def report(destination: BigQueryDestination, table: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError."""
    dialect = BigQueryDialect(destination)
    with closing(BigQuerySession(destination)) as session:
        found = dialect.described(session, table)
    if found is None:
        return None
    return table_report(
        f"{destination.where} {dialect.place(table)}",
        [one.name for one in found.schema],
        examples(destination, table),
        sequence=SEQUENCE,
        rows=found.num_rows,
        size=found.num_bytes,
        committed_at=found.modified,
    )


def preview(destination: BigQueryDestination, table: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    dialect = BigQueryDialect(destination)
    with closing(BigQuerySession(destination)) as session:
        found = dialect.described(session, table)
        if found is None:
            return None
        names = [one.name for one in found.schema]
        with explained(destination):
            listed = session.client.list_rows(found, max_results=int(rows), retry=RETRY, timeout=PAGE_SECONDS)
            return table_preview(names, [row.values() for row in listed])


def examples(destination: BigQueryDestination, table: TargetTable) -> list[QueryExample]:
    """In the order of the programs; none has a secret."""
    sql = f"SELECT * FROM {BigQueryDialect(destination).place(table)} LIMIT 10"
    quiet = sql.replace("'", "'\\''")
    python = (
        f"from google.cloud import bigquery\n\nclient = bigquery.Client(project={destination.project!r})\n"
        f"for row in client.query({sql!r}).result():\n    print(row)"
    )
    return [
        QueryExample("BigQuery console", f"{sql};"),
        QueryExample("bq", f"bq query --project_id={destination.project} --use_legacy_sql=false '{quiet}'"),
        QueryExample("google-cloud-bigquery", python),
    ]
