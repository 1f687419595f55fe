"""What a table has now, and its first rows, for pages."""

from __future__ import annotations

from contextlib import closing, suppress

from replicator.errors import TargetError
from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.kind import CELL, InspectedTable, Preview, QueryExample
from replicator.targets.spanner.config import SpannerDestination
from replicator.targets.spanner.connection import SpannerSession
from replicator.targets.spanner.dialect import SpannerDialect
from replicator.targets.spanner.names import ALIAS, column_name
from replicator.targets.warehouse.inspection import table_preview, table_report

COLUMNS = (
    "SELECT column_name, spanner_type FROM information_schema.columns WHERE table_schema = @namespace"
    " AND table_name = @name ORDER BY ordinal_position"
)


def report(destination: SpannerDestination, table: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError.  bytes: of the last hour, where Spanner reports them."""
    place, size = SpannerDialect(destination).place(table), 0
    with closing(SpannerSession(destination)) as session:
        columns = _columns(session, table)
        if not columns:
            return None
        ((rows,),) = session.query(f"SELECT COUNT(*) FROM {place}")
        with suppress(TargetError):  # the emulator does not tell
            found = session.query(
                "SELECT used_bytes FROM spanner_sys.table_sizes_stats_1hour WHERE table_name = @name"
                " ORDER BY interval_end DESC LIMIT 1", {"name": f"{table.namespace}.{table.name}"},
            )  # fmt: skip
            size = found[0][0] if found else 0
    return table_report(
        f"{destination.where} {place}",
        [name for name, _ in columns],
        examples(destination, table),
        sequence=column_name(SEQUENCE),
        rows=rows,
        size=size,
    )


def preview(destination: SpannerDestination, table: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    place = SpannerDialect(destination).place(table)
    with closing(SpannerSession(destination)) as session:
        columns = _columns(session, table)
        if not columns:
            return None
        shown = ", ".join(
            f"SUBSTR({f'TO_HEX(`{name}`)' if kind.startswith('BYTES') else f'CAST(`{name}` AS STRING)'}, 1, {CELL + 3})"
            for name, kind in columns
        )
        found = session.query(f"SELECT {shown} FROM {place} AS {ALIAS} LIMIT {int(rows)}")
    names = [name for name, _ in columns]
    return table_preview(names, found)


def examples(destination: SpannerDestination, table: TargetTable) -> list[QueryExample]:
    """In the order of the programs; none has a secret."""
    one, sql = destination, f"SELECT * FROM {SpannerDialect(destination).place(table)} LIMIT 10"
    shell = (
        f"gcloud spanner databases execute-sql {one.database} --instance={one.instance} --project={one.project}"
        f" --sql='{sql}'"
    )
    python = (
        f"from google.cloud import spanner\n\ndb = spanner.Client({one.project!r}).instance({one.instance!r})"
        f".database({one.database!r})\nwith db.snapshot() as snapshot:\n"
        f"    print(list(snapshot.execute_sql({sql!r})))"
    )
    return [
        QueryExample("Spanner Studio", f"{sql};"),
        QueryExample("gcloud", shell),
        QueryExample("google-cloud-spanner", python),
    ]


def _columns(session: SpannerSession, table: TargetTable) -> list[tuple[str, str]]:
    found = session.query(COLUMNS, {"namespace": table.namespace, "name": table.name})
    return [(str(name), str(kind)) for name, kind in found]
