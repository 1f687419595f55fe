"""Operations on columns and indexes.  A captured column cannot be renamed, so none is."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.model import Operation, SchemaDraft
from testing.workload.schemas import ColumnModel, Statements, TableModel
from testing.workload.sqlserver.kinds import MAX, SqlServerKind
from testing.workload.sqlserver.schemas import changeable, declared
from testing.workload.sqlserver.spelling import quoted

WIDER = {
    "tinyint": "smallint",
    "smallint": "int",
    "int": "bigint",
    "real": "float",
    "smallmoney": "money",
    "varchar": "nvarchar",
}


def _with(table: TableModel, column: ColumnModel) -> TableModel:
    return replace(table, columns=(*table.columns, column))


def _without(table: TableModel, gone: ColumnModel) -> TableModel:
    return replace(table, columns=tuple(column for column in table.columns if column != gone))


def _add_column(draft: SchemaDraft, table: TableModel) -> Statements:
    """Nullable; or with a default, which the rows that are there get where it is NOT NULL."""
    column = draft.maker.column()
    if not column.default:
        column = replace(column, nullable=True)
    draft.keep(_with(table, column))
    draft.used[f"add column {'filled' if not column.nullable else 'empty'}"] += 1
    return (f"ALTER TABLE {table.sql} ADD {quoted(column.name)} {declared(column)}",)


def _add_generated(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.maker.generated(table.columns)
    if column is None:
        return None
    draft.keep(_with(table, column))
    return (f"ALTER TABLE {table.sql} ADD {quoted(column.name)} {declared(column)}",)


def _droppable(table: TableModel) -> list[ColumnModel]:
    return [column for column in table.droppable if changeable(column) or column.generated]


def _drop_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = _droppable(table)
    if not columns or table.indexes:
        return None
    gone = draft.pen.choice(columns)
    draft.keep(_without(table, gone))
    return (f"ALTER TABLE {table.sql} DROP COLUMN {quoted(gone.name)}",)


def _drop_and_add(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same name, another column, whose old values are gone."""
    columns = [column for column in _droppable(table) if not column.generated]
    if not columns or table.indexes:
        return None
    gone = draft.pen.choice(columns)
    same = draft.pen.chance(0.4)
    new = gone if same else replace(draft.maker.column(), name=gone.name, default="")
    new = replace(new, nullable=True)
    draft.keep(_with(_without(table, gone), new))
    return (
        f"ALTER TABLE {table.sql} DROP COLUMN {quoted(gone.name)}",
        f"ALTER TABLE {table.sql} ADD {quoted(new.name)} {declared(new)}",
    )


def _wider(kind: SqlServerKind) -> SqlServerKind | None:
    """A type that holds all of the values and more; None where there is none here."""
    if kind.name in ("varchar", "nvarchar", "char", "nchar", "varbinary") and kind.size and 0 < kind.size <= 200:  # noqa: PLR2004
        return replace(kind, size=kind.size * 2)
    if kind.name == "decimal" and kind.size and kind.size < 30:  # noqa: PLR2004
        return replace(kind, size=kind.size + 5, scale=(kind.scale or 0) + 2)
    if kind.name in ("time", "datetime2", "datetimeoffset") and kind.size is not None and kind.size < 7:  # noqa: PLR2004
        return replace(kind, size=7)
    if kind.name in WIDER and kind.size != MAX:
        return replace(kind, name=WIDER[kind.name], size=None)
    return None


def _widen(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if table.indexes:
        return None
    found = [
        (c, wide)
        for c in table.free
        if changeable(c) and isinstance(c.kind, SqlServerKind) and (wide := _wider(c.kind))
    ]
    if not found:
        return None
    column, kind = draft.pen.choice(found)
    new = replace(column, kind=kind)
    draft.keep(table.with_column(column.name, new))
    return (f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(column.name)} {declared(new)}",)


def _nullability(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A column becomes nullable."""
    columns = [column for column in table.free if changeable(column) and not column.nullable]
    if not columns or table.indexes:
        return None
    new = replace(draft.pen.choice(columns), nullable=True)
    draft.keep(table.with_column(new.name, new))
    return (f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(new.name)} {declared(new)}",)


def _add_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    indexable = [c for c in table.columns if c.kind.is_simple and c.kind.size != MAX and not c.generated]
    if not indexable or table.indexes:
        return None
    name = draft.maker.name("i", odd=0)
    draft.keep(replace(table, indexes=(name,)))
    return (f"CREATE INDEX {quoted(name)} ON {table.sql} ({quoted(draft.pen.choice(indexable).name)})",)


def _drop_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.indexes:
        return None
    draft.keep(replace(table, indexes=()))
    return (f"DROP INDEX {quoted(table.indexes[0])} ON {table.sql}",)


SOFT: dict[str, tuple[int, Operation]] = {
    "add column": (10, _add_column),
    "add index": (2, _add_index),
    "drop index": (5, _drop_index),
}
ALTERATIONS: dict[str, tuple[int, Operation]] = {
    **SOFT,
    "add computed column": (2, _add_generated),
    "drop column": (6, _drop_column),
    "drop and add column": (4, _drop_and_add),
    "widen": (6, _widen),
    "nullability": (3, _nullability),
}
