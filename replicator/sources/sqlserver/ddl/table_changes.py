"""What two descriptions of a table differ in, as a schema change."""

from __future__ import annotations

from replicator.errors import TableError
from replicator.model.change import Ddl
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import widens
from replicator.sources.shared.table_change import TableChange
from replicator.sources.sqlserver.catalog.table_description import TableDescription

Outcome = TableChange | TableError
_WHOLE = ("tinyint", "smallint", "int", "bigint")


def altered(old: TableSchema, described: TableDescription, *, reload: bool, text: str) -> TableChange | None:
    """None where nothing differs.  `reload`: rows that were there have other values for another reason."""
    new = described.schema
    numbers = {one.number: one.name for one in old.columns if one.number}
    renamed = {numbers[one.number]: one.name for one in new.columns if numbers.get(one.number, one.name) != one.name}
    was = {renamed.get(one.name, one.name): one for one in old.columns}
    converted = any(
        not keeps_values(before, column) for column in new.columns if (before := was.get(column.name)) is not None
    )
    made_again = any(
        before.number and before.number != column.number
        for column in new.columns
        if (before := was.get(column.name)) is not None
    )
    filled = any(described.definition(one.name).filled for one in new.columns if one.name not in was)
    moved = tuple(renamed.get(name, name) for name in old.key) != new.key
    reload = reload or converted or made_again or filled or moved
    if old != new or reload:
        words = text or f"{new.table} has another definition"
        return TableChange(Ddl.ALTER_TABLE, new.table, new, renamed=renamed, reload=reload, text=words)
    if not old.same_as(new):
        return TableChange(Ddl.ALTER_TABLE, new.table, new)  # only so that who reads on from here knows it again
    return None


def keeps_values(before: Column, after: Column) -> bool:
    """Does every value stay the same, in the target's type and as the source gives it, when a column's type is altered?

    A value of char(n) or binary(n) is padded again; fractional seconds are rounded or printed differently.
    """
    if before.source_type == after.source_type:
        return before.type == after.type
    (was, size), (now, larger) = (_declared(one.source_type) for one in (before, after))
    if was in _WHOLE and now in _WHOLE:
        return _WHOLE.index(was) < _WHOLE.index(now)
    if was != now:
        return (was, now) == ("real", "float")
    if was in {"decimal", "numeric"}:
        return widens(before.type, after.type)
    grows = was in {"varchar", "nvarchar", "varbinary"} or (was == "datetime2" and before.type == after.type)
    return grows and size <= larger


def _declared(text: str) -> tuple[str, int]:
    """Name and length; that of max is beyond all others."""
    name, _, size = text.partition("(")
    length = size.rstrip(")")
    return name, int(length) if length.isdigit() else 1 << 30


def renamed_table(old: TableSchema, new: TableSchema) -> TableChange:
    """The table has another name, and perhaps less columns that are taken."""
    text, reload = f"{old.table} is called {new.table} now", len(new.columns) < len(old.columns)
    return TableChange(Ddl.RENAME_TABLE, old.table, new, new.table, reload=reload, text=text)


def dropped(table: TableId) -> TableChange:
    """Return the change for a table that is no longer in the selection."""
    return TableChange(Ddl.DROP_TABLE, table, text=f"{table} no longer exists")


def created(schema: TableSchema, was: TableId | None) -> TableChange:
    """It came into the selection.  was: the name that it had there before."""
    text = f"{schema.table} was added to the selection"
    return TableChange(Ddl.CREATE_TABLE, schema.table, schema, reload=True, text=text, was=was)
