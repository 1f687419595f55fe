"""What a source's log or catalog tells of a table's definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from replicator.model.change import Ddl, SchemaChange
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema


@dataclass(frozen=True, slots=True)
class TableChange:
    """What a `SchemaChange` says, but for its place in the log."""

    operation: Ddl
    table: TableId
    schema: TableSchema | None = None
    new_table: TableId | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    reload: bool = False
    text: str = ""
    was: TableId | None = None

    def at(self, ordinal: int, offset: Offset, commit_ts: datetime | None) -> SchemaChange:
        """The message, at its place."""
        return SchemaChange(
            ordinal=ordinal,
            operation=self.operation,
            table=self.table,
            offset=offset,
            commit_ts=commit_ts,
            schema=self.schema,
            new_table=self.new_table,
            renamed_columns=self.renamed,
            reload=self.reload,
            statement=self.text,
            was=self.was,
        )
