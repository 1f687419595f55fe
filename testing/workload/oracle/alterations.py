"""Operations on a table's columns, keys and indexes: ALTER TABLE; and on whole tables."""

from __future__ import annotations

from dataclasses import replace

from testing.workload import tables
from testing.workload.changes import inserted
from testing.workload.model import Operation, SchemaDraft
from testing.workload.oracle.kinds import CHARACTERS, OracleKind
from testing.workload.oracle.schemas import SchemaMaker, declared, quoted
from testing.workload.rng_literals import plain
from testing.workload.schemas import ColumnModel, Statements, TableModel


def _altered(table: TableModel, what: str) -> str:
    return f"ALTER TABLE {table.sql} {what}"


def _column(draft: SchemaDraft, table: TableModel) -> ColumnModel:
    assert isinstance(draft.maker, SchemaMaker)
    return draft.maker.column(keyed=bool(table.key.columns))


def _add_column(draft: SchemaDraft, table: TableModel) -> Statements:
    """With a default, existing rows have it at once, and the log shows nothing of them."""
    column = _column(draft, table)
    if not column.extra:
        column = replace(column, nullable=True)
    draft.keep(replace(table, columns=(*table.columns, column)))
    draft.used[f"add column with {'a' if column.extra else 'no'} default"] += 1
    text = f"{quoted(column.name)} {declared(column)}"
    return (_altered(table, draft.pen.choice((f"ADD ({text})", f"ADD {text}"))),)


def _drop_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = table.droppable
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    draft.keep(_without(table, gone))
    name = quoted(gone.name)
    return (_altered(table, draft.pen.choice((f"DROP COLUMN {name}", f"DROP ({name})", f"SET UNUSED ({name})"))),)


def _without(table: TableModel, gone: ColumnModel) -> TableModel:
    return replace(table, columns=tuple(column for column in table.columns if column != gone))


def _rename_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = table.renamable
    if not columns:
        return None
    old = draft.pen.choice(columns)
    new = replace(old, name=draft.maker.name("r", odd=0.25))
    draft.keep(table.with_column(old.name, new))
    return (_altered(table, f"RENAME COLUMN {quoted(old.name)} TO {quoted(new.name)}"),)


def _swap_names(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two columns swap names through a third name; each statement is a transaction."""
    columns = [column for column in table.renamable if column.plain]
    if len(columns) < 2:  # noqa: PLR2004
        return None
    first, second = draft.pen.sample(columns, 2)
    swapped = {first.name: replace(first, name=second.name), second.name: replace(second, name=first.name)}
    draft.keep(replace(table, columns=tuple(swapped.get(column.name, column) for column in table.columns)))
    aside = draft.maker.name("aside", odd=0)
    moves = ((first.name, aside), (second.name, first.name), (aside, second.name))
    return tuple(_altered(table, f"RENAME COLUMN {quoted(old)} TO {quoted(new)}") for old, new in moves)


def _drop_and_add(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same name, another column, whose old values are gone."""
    columns = table.droppable
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    new = replace(_column(draft, table), name=gone.name, nullable=True)
    draft.keep(replace(_without(table, gone), columns=(*_without(table, gone).columns, new)))
    name = quoted(gone.name)
    return (_altered(table, f"DROP COLUMN {name}"), _altered(table, f"ADD ({name} {declared(new)})"))


def _widen(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """MODIFY to a type that holds all of the values and more."""
    found = [(column, kind) for column in table.plain if not column.unique and (kind := _wider(column.kind))]
    if not found:
        return None
    column, kind = draft.pen.choice(found)
    draft.keep(table.with_column(column.name, replace(column, kind=kind)))
    return (_altered(table, f"MODIFY ({quoted(column.name)} {kind.declared()})"),)


def _wider(kind: object) -> OracleKind | None:
    assert isinstance(kind, OracleKind)
    size, most = kind.size or 1, 36
    if kind.name in (*CHARACTERS, "RAW"):
        limit = {"VARCHAR2": 1000, "NVARCHAR2": 1000, "CHAR": 200, "NCHAR": 200, "RAW": 1000}[kind.name]
        return replace(kind, size=size * 2) if size * 2 <= limit else None
    if kind.name == "NUMBER" and kind.size is not None and (kind.scale or 0) >= 0 and size < most:
        return replace(kind, size=size + 2)
    if kind.name.startswith("TIMESTAMP") and (kind.scale or 0) < 9:  # noqa: PLR2004
        return replace(kind, scale=9)
    return None


def _change_default(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([one for one in table.plain if one.kind.has_default] or [None])
    if column is None:
        return None
    new = draft.maker.default(column.kind) if draft.pen.chance(0.7) else "NULL"
    draft.keep(table.with_column(column.name, replace(column, extra=f"DEFAULT {new}")))
    return (_altered(table, f"MODIFY ({quoted(column.name)} DEFAULT {new})"),)


def _change_nullability(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice(table.free or [None])
    if column is None or column.unique:
        return None
    draft.keep(table.with_column(column.name, replace(column, nullable=not column.nullable)))
    name = quoted(column.name)
    if not column.nullable:
        return (_altered(table, f"MODIFY ({name} NULL)"),)
    filled = f"UPDATE {table.sql} SET {name} = {column.kind.value(draft.pen)} WHERE {name} IS NULL"
    return (filled, _altered(table, f"MODIFY ({name} NOT NULL)"))


def _change_visibility(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Of a column that INSERTs may leave out: `*` no longer finds it, or does again."""
    column = draft.pen.choice([one for one in table.free if one.nullable or one.extra] or [None])
    if column is None:
        return None
    changed = replace(column, invisible=not column.invisible)
    draft.keep(table.with_column(column.name, changed))
    how = "INVISIBLE" if changed.invisible else "VISIBLE"
    return (_altered(table, f"MODIFY ({quoted(column.name)} {how})"),)


def _comment(draft: SchemaDraft, table: TableModel) -> Statements:
    what = draft.pen.choice((f"TABLE {table.sql}", f"COLUMN {table.sql}.{quoted(table.columns[0].name)}"))
    return (f"COMMENT ON {what} IS {draft.pen.choice((plain(''), plain('a comment; it is `new`')))}",)


def _add_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    indexable = [column for column in table.columns if column.kind.is_simple and (column.kind.size or 0) <= 100]  # noqa: PLR2004
    if not indexable:
        return None
    name = draft.maker.name("i", odd=0.1)
    draft.keep(replace(table, indexes=(*table.indexes, name)))
    return (f"CREATE INDEX {quoted(name)} ON {table.sql} ({quoted(draft.pen.choice(indexable).name)})",)


def _drop_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.indexes:
        return None
    name = draft.pen.choice(table.indexes)
    draft.keep(replace(table, indexes=tuple(index for index in table.indexes if index != name)))
    return (f"DROP INDEX {quoted(name)}",)


def _drop(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) < 2:  # noqa: PLR2004
        return None
    del draft.tables[table.name]
    return (f"DROP TABLE {table.sql} {draft.pen.choice(('PURGE', 'CASCADE CONSTRAINTS PURGE'))}",)


def _recreate(draft: SchemaDraft, table: TableModel) -> Statements:
    new, rows = tables.reshaped(draft, table)
    return (f"DROP TABLE {table.sql} CASCADE CONSTRAINTS PURGE", *new.created(), rows)


def _truncate(draft: SchemaDraft, table: TableModel) -> Statements:
    draft.keep(replace(table, top=0))
    how = draft.pen.choice(("", " DROP STORAGE", " REUSE STORAGE"))
    return (f"TRUNCATE TABLE {table.sql}{how}", inserted(draft, draft.tables[table.name], draft.pen.randint(1, 20)))


def _rename(draft: SchemaDraft, table: TableModel) -> Statements:
    new = replace(table, name=draft.maker.name("t", odd=0.4))
    draft.keep(new, table.name)
    return (_altered(table, f"RENAME TO {new.sql}"),)


def _rename_and_back(draft: SchemaDraft, table: TableModel) -> Statements:
    aside = replace(table, name=draft.maker.name("t"))
    rows = inserted(draft, table, 1).replace(table.sql, aside.sql, 1)
    return (_altered(table, f"RENAME TO {aside.sql}"), rows, _altered(aside, f"RENAME TO {table.sql}"))


def _swap(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two tables change names."""
    others = [
        other for other in draft.tables.values() if other.name != table.name and not (other.fixed or other.refused)
    ]
    if not others:
        return None
    other, aside = draft.pen.choice(others), replace(table, name=draft.maker.name("tmp", odd=0.1))
    draft.tables[table.name] = replace(other, name=table.name)
    draft.tables[other.name] = replace(table, name=other.name)
    return (
        _altered(table, f"RENAME TO {aside.sql}"), _altered(other, f"RENAME TO {table.sql}"),
        _altered(aside, f"RENAME TO {other.sql}"),
    )  # fmt: skip


SOFT: dict[str, tuple[int, Operation]] = {
    "add column": (10, _add_column),
    "change default": (3, _change_default),
    "comment": (2, _comment),
    "add index": (3, _add_index),
    "drop index": (3, _drop_index),
}
ALTERATIONS: dict[str, tuple[int, Operation]] = {
    **SOFT,
    "drop column": (6, _drop_column),
    "rename column": (6, _rename_column),
    "swap column names": (2, _swap_names),
    "widen": (6, _widen),
    "change nullability": (3, _change_nullability),
    "drop and add column": (4, _drop_and_add),
    "change visibility": (2, _change_visibility),
}
TABLES: dict[str, tuple[int, Operation]] = {
    "create": (8, tables.create),
    "drop": (4, _drop),
    "create again": (3, _recreate),
    "truncate": (5, _truncate),
    "rename table": (4, _rename),
    "rename and back": (1, _rename_and_back),
    "swap tables": (4, _swap),
}
