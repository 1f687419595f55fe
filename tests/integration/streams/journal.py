"""A journal made by hand: real staged files, and the rows that capture would have written of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import BIGINT, STRING
from tests.browser.factories import make_connection, make_replicator, make_table
from webapp.database import clock
from webapp.replicators.journal_notify import notify_journal
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion, SegmentRow
from webapp.replicators.staging import storage
from webapp.worker.run import wiring

COLUMNS = (Column("id", BIGINT, nullable=False, source_type=""), Column("v", STRING, nullable=True, source_type=""))


class Journal:
    """`shop`: a replicator of tables with the columns id and v."""

    def __init__(self, *tables: str, keyless: tuple[str, ...] = ()) -> None:
        self.replicator = make_replicator(make_connection(), "shop", next_sequence=0)
        self.tables = {name: self.add(name, keyless=name in keyless) for name in (*tables, *keyless)}

    def add(self, name: str, *, keyless: bool = False) -> ReplicatorTable:
        table = make_table(self.replicator, name, keyless=keyless, last_sequence=-1, applied=-1)
        schema = TableSchema(TableId("shop", name), COLUMNS, () if keyless else ("id",))
        SchemaVersion.objects.create(table=table, version=1, schema=schema.to_dict())
        return table

    @property
    def next(self) -> int:
        return Replicator.objects.get(pk=self.replicator.pk).next_sequence

    def log(self, name: str, *ids: int, operation: str = "INSERT", **told: Any) -> SegmentRow:
        """Changes of one table, of keys, as one entry."""
        first = self.next
        rows = [
            {"_sequence_num": first + place, "_operation": operation, "id": key, "v": f"v{first + place}"}
            | ({BEFORE + "id": key, BEFORE + "v": "old"} if operation != "INSERT" else {})
            for place, key in enumerate(ids)
        ]
        return self._stage(name, rows, kind="log", bare=False, **told)

    def chunk(self, name: str, *ids: int, **told: Any) -> SegmentRow:
        """Rows of a snapshot."""
        return self._stage(name, [{"id": key, "v": "read"} for key in ids], kind="chunk", bare=True, **told)

    def _stage(self, name: str, rows: list[dict[str, Any]], *, bare: bool, **told: Any) -> SegmentRow:
        table, first = self.tables.get(name) or ReplicatorTable.objects.get(name=name), self.next
        schema = SchemaVersion.objects.get(table=table, version=1).parsed
        data = pa.Table.from_pylist(rows, schema=schema.row_arrow if bare else schema.change_arrow)
        path = f"{wiring.label(self.replicator)}/{name}/{first}.parquet"
        with storage().writer(path, data.schema) as writer:
            writer.write_table(data)
        row = SegmentRow.objects.create(
            table=table,
            schema_version=1,
            first_sequence=first,
            last_sequence=first + len(rows) - 1,
            path=path,
            rows=len(rows),
            size=1,
            bare=bare,
            **told,
        )
        self.advance(len(rows))
        return row

    def advance(self, numbers: int) -> None:
        """Capture's commit."""
        Replicator.objects.filter(pk=self.replicator.pk).update(next_sequence=self.next + numbers)
        notify_journal(self.replicator.pk)

    def aged(self, row: SegmentRow, *, created: float, applied: float) -> None:
        """Hours ago."""
        now = clock()
        SegmentRow.objects.filter(pk=row.pk).update(
            created_at=now - timedelta(hours=created), applied_at=now - timedelta(hours=applied)
        )
