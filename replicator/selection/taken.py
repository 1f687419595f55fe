"""What of one table is taken, and how: its row filter, then its masks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from replicator.errors import SelectionDoesNotFit
from replicator.model.change import ChangeBatch
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask
from replicator.model.row_filter import RowFilter
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.selection.filtering import chosen_changes, matching
from replicator.selection.masking import masked_rows, masked_schema


@dataclass(frozen=True)
class Taken:
    """`salt`: what hashes begin with.  `whole_rows`: the remedy where a row filter lacks rows as they were before."""

    row_filter: RowFilter = field(default_factory=RowFilter)
    masks: Mapping[str, Mask] = field(default_factory=dict)
    salt: bytes = field(default=b"", repr=False)
    whole_rows: str = ""

    def schema(self, plain: TableSchema) -> TableSchema:
        """What is staged of the source's own.  SelectionDoesNotFit."""
        if why := self.row_filter.refusal(plain):
            remedy = self.whole_rows if plain.partial else None
            raise SelectionDoesNotFit(f"{plain.table}: {why}", table=str(plain.table), remedy=remedy)
        return masked_schema(plain, self.masks)

    def changes(self, batch: ChangeBatch, schema: TableSchema) -> ChangeBatch:
        """`schema` is what `self.schema` makes of the batch's."""
        chosen = chosen_changes(batch, self.row_filter) if self.row_filter else batch
        return replace(chosen, schema=schema, data=masked_rows(chosen.data, schema, self.salt))

    def places(self, rows: pa.RecordBatch, plain: TableSchema) -> pa.Array | None:
        """True for each row that is taken; None where all are."""
        return matching(rows, self.row_filter, plain) if self.row_filter else None


def taken_of(tables: TableSet, whole_rows: str = "") -> dict[TableId, Taken]:
    """Of the tables that are not taken as they are; `whole_rows` is `Taken`'s."""
    return {
        table: Taken(tables.row_filters.get(table, RowFilter()), tables.masks.get(table, {}), tables.salt, whole_rows)
        for table in {*tables.row_filters, *tables.masks}
    }
