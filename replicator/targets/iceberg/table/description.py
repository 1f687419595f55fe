"""What a table tells its readers of its columns: identifier fields, which are never null, and comments.

Of all columns only those of the key are required.  Other NOT NULL columns are not: Postgres' log does not say when one
becomes nullable, so a row may come with a null before that is known; and columns that were added later, or dropped and
kept, have no value in some rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.model.types import Kind
from replicator.targets.iceberg.jvm.jvm import Engine
from replicator.targets.iceberg.table.catalog import IcebergTable

COMMENT = "comment"  # the property that engines show as the table's
_ONE_ROW_PER_KEY = frozenset({Mode.MIRROR, Mode.SOFT_DELETE})


def identifiers(schema: TableSchema, mode: Mode) -> tuple[str, ...]:
    """The columns of the key, where a table has one row for each key; none where Iceberg allows them not."""
    columns = [schema.column(name) for name in schema.key]
    fit = mode in _ONE_ROW_PER_KEY and not any(c.nullable or c.type.kind in {Kind.FLOAT, Kind.DOUBLE} for c in columns)
    return schema.key if fit else ()


def let_go(
    transaction: Any, table: IcebergTable, new: TableSchema, back: Mapping[str, str], gone: Collection[str]
) -> None:
    """Before columns are dropped or renamed: these are no identifiers, and what the key has no longer may be null.

    back: names as they are, by those that columns get.  gone: columns that are dropped, also to make room for others.
    """
    required = {str(field["name"]) for field in table.fields if field["required"]}
    lost = required - ({back.get(name, name) for name in identifiers(new, table.mode)} - set(gone))
    if not lost and required.isdisjoint(back.values()):
        return
    update = transaction.updateSchema().setIdentifierFields(_collection(table.engine, ()))
    for name in lost:
        update.makeColumnOptional(name)
    update.commit()


def describe(engine: Engine, transaction: Any, schema: TableSchema, mode: Mode, *, whole: bool) -> None:
    """Identifiers and comments, once the columns are those of `schema`; `whole`: the table's comment, too.

    A key with a column that may be null here makes no identifiers: in a table of before, or one whose key is another
    now, rows may have none.  What the source says nothing of stays as others have described it here.
    """
    present = transaction.table().schema()
    fields = {str(one.name()): one for one in present.columns()}
    key = identifiers(schema, mode)
    fit = key if all(fields[name].isRequired() for name in key) else ()
    said = {one.name: one.comment for one in schema.columns if one.comment not in {"", fields[one.name].doc()}}
    if said or set(map(str, present.identifierFieldNames())) != set(fit):
        update = transaction.updateSchema().setIdentifierFields(_collection(engine, fit))
        for name, comment in said.items():
            update.updateColumnDoc(name, comment)
        update.commit()
    if whole and schema.comment not in {"", transaction.table().properties().get(COMMENT)}:
        transaction.updateProperties().set(COMMENT, schema.comment).commit()


def _collection(engine: Engine, names: tuple[str, ...]) -> Any:
    found = engine.java("java.util.ArrayList")()
    for name in names:
        found.add(name)
    return found
