"""What of one table is taken, and how: its row filter, then its masks, then its computed columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa

from replicator.errors import SelectionDoesNotFit
from replicator.model.change import ChangeBatch
from replicator.model.computed import Computed
from replicator.model.computed_rules import ComputedColumns
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask
from replicator.model.row_filter import RowFilter
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.selection.computing import computed_changes, computed_rows, with_computed
from replicator.selection.filtering import chosen_changes, matching
from replicator.selection.masking import masked_rows, masked_schema


@dataclass(frozen=True)
class Taken:
    """`salt`: what hashes begin with.  `whole_rows`: the remedy where a row filter lacks rows as they were before."""

    row_filter: RowFilter = field(default_factory=RowFilter)
    masks: Mapping[str, Mask] = field(default_factory=dict)
    salt: bytes = field(default=b"", repr=False)
    whole_rows: str = ""
    computed: Mapping[str, Computed] = field(default_factory=dict)

    @property
    def hides(self) -> bool:
        """Must no value of the source go by as it is?"""
        return bool(self.masks or self.row_filter)

    def schema(self, plain: TableSchema) -> TableSchema:
        """What is staged of the source's own.  SelectionDoesNotFit."""
        if why := self.row_filter.refusal(plain):
            remedy = self.whole_rows if plain.partial else None
            raise SelectionDoesNotFit(f"{plain.table}: {why}", table=str(plain.table), remedy=remedy)
        return with_computed(masked_schema(plain, self.masks), self.computed)

    def changes(self, batch: ChangeBatch, schema: TableSchema) -> ChangeBatch:
        """`schema` is what `self.schema` makes of the batch's."""
        chosen = chosen_changes(batch, self.row_filter) if self.row_filter else batch
        return replace(
            chosen, schema=schema, data=computed_changes(masked_rows(chosen.data, schema, self.salt), schema)
        )

    def rows(self, chosen: pa.RecordBatch, schema: TableSchema, read_at: datetime) -> pa.RecordBatch:
        """Rows of a snapshot that are taken; `schema` as for `changes`."""
        return computed_rows(masked_rows(chosen, schema, self.salt), schema, read_at)

    def places(self, rows: pa.RecordBatch, plain: TableSchema) -> pa.Array | None:
        """True for each row that is taken; None where all are."""
        return matching(rows, self.row_filter, plain) if self.row_filter else None


class TakenTables:
    """The tables that are not taken as they are, by their present names."""

    def __init__(self, tables: TableSet | None = None, whole_rows: str = "") -> None:
        """`whole_rows` is `Taken`'s."""
        tables = tables or TableSet()
        self._tables = tables.followed()
        self._computed: ComputedColumns = tables.computed
        self._own = {
            table: Taken(
                tables.row_filters.get(table, RowFilter()), tables.masks.get(table, {}), tables.salt, whole_rows
            )
            for table in {*tables.row_filters, *tables.masks}
        }
        self._known: dict[TableId, Taken | None] = {}

    def __bool__(self) -> bool:
        return bool(self._own or self._computed)

    def get(self, table: TableId | None) -> Taken | None:
        """None for a table that is taken as it is."""
        if table is None or not self:
            return None
        if table not in self._known:
            own, computed = self._own.get(table), self._computed.of(table)
            self._known[table] = replace(own or Taken(), computed=computed) if own or computed else None
        return self._known[table]

    def hides(self, table: TableId) -> bool:
        """Must no value of the table go by as it is?"""
        found = self.get(table)
        return found is not None and found.hides

    def carry(self, old: TableId, new: TableId) -> bool:
        """Apply masks and row filter of `old` to its new name as well, in addition to those of `new`.

        They also stay with the old name, for another table that gets it.  True where the table's rules are different
        now.
        """
        before = self.get(old)
        self._tables.carry(old, new)
        if old in self._own or new in self._own:
            none, left_out = Taken(), self._tables.columns_left_out(new)
            moved, own = self._own.get(old, none), self._own.get(new, none)
            masks = {name: mask for name, mask in {**moved.masks, **own.masks}.items() if name not in left_out}
            both = own.row_filter.both(moved.row_filter)
            self._own[new] = replace(self._own.get(old, own), row_filter=both, masks=masks)
            self._known.pop(new, None)
        return self.get(new) != before
