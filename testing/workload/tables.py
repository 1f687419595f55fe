"""Operations on whole tables that all dialects have."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import bulk, inserted
from testing.workload.keys import KeyModel
from testing.workload.model import SchemaDraft
from testing.workload.schemas import Statements, TableModel

MAX_TABLES = 6
NO_KEY = KeyModel("none")


def create(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """One more, with rows."""
    if len(draft.tables) >= MAX_TABLES:
        return None
    table = draft.table()
    draft.keep(table)
    return (*table.created(), bulk(draft, table, draft.pen.randint(1, 200)))


def reshaped(draft: SchemaDraft, table: TableModel) -> tuple[TableModel, str]:
    """The same name, another shape, and an INSERT of its first rows."""
    new = replace(draft.table(), name=table.name)
    if draft.pen.chance(0.5) and not any(column.generated for column in new.columns):
        for column, old in zip(new.plain, table.plain, strict=False):  # the same names, other types
            new = new.with_column(column.name, replace(column, name=old.name))
    draft.keep(new)
    return new, inserted(draft, new, draft.pen.randint(1, 20))
