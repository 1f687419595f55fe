"""Operations on a table's columns, keys and indexes: ALTER TABLE; and on the types of its columns: ALTER TYPE."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.keys import KeyModel
from testing.workload.model import Operation, SchemaDraft, Whole
from testing.workload.postgres.retyping import RETYPINGS, altered
from testing.workload.postgres.schemas import TableModel as PostgresTable
from testing.workload.postgres.values import kinds
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.rng_literals import names, quoted
from testing.workload.rng_literals import plain
from testing.workload.schemas import MIN_COLUMNS, ColumnModel, Statements, TableModel


def _with(table: TableModel, column: ColumnModel) -> TableModel:
    return replace(table, columns=(*table.columns, column))


def _add_column(draft: SchemaDraft, table: TableModel) -> Statements:
    column = draft.maker.column()
    if not column.nullable and not column.default:
        column = replace(column, nullable=column.generated == "")
    draft.keep(_with(table, column))
    draft.used[f"add column with {_default_of(column)}"] += 1
    return (altered(table, f"ADD COLUMN {quoted(column.name)} {column.declared()}"),)


def _default_of(column: ColumnModel) -> str:
    if column.generated:
        return "identity"
    if not column.default:
        return "no default"
    return "volatile default" if column.default.endswith("()") or "random()" in column.default else "constant default"


def _add_generated(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.maker.generated(table.columns)
    if column is None:
        return None
    draft.keep(_with(table, column))
    return (altered(table, f"ADD COLUMN {quoted(column.name)} {column.declared()}"),)


def _drop_expression(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A generated column becomes a plain one and keeps its values, which the log has had from 18 on only."""
    columns = [column for column in table.columns if column.generated.endswith("STORED")]
    if not columns:
        return None
    column = draft.pen.choice(columns)
    draft.keep(table.with_column(column.name, replace(column, generated="")))
    return (altered(table, f"ALTER COLUMN {quoted(column.name)} DROP EXPRESSION"),)


def _drop_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = table.droppable
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    draft.keep(_without(table, gone))
    how = draft.pen.choice(("", "", " CASCADE"))
    return (altered(table, f"DROP COLUMN {draft.pen.choice(('', 'IF EXISTS '))}{quoted(gone.name)}{how}"),)


def _without(table: TableModel, gone: ColumnModel) -> TableModel:
    return replace(table, columns=tuple(column for column in table.columns if column != gone))


def _rename_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Postgres follows names through expressions; so does no model of ours."""
    columns = table.renamable
    if not columns:
        return None
    old = draft.pen.choice(columns)
    new = replace(old, name=draft.maker.name("r", odd=0.25))
    draft.keep(table.with_column(old.name, new))
    return (_renamed(table, old.name, new.name),)


def _renamed(table: TableModel, old: str, new: str) -> str:
    return f"ALTER TABLE {table.sql} RENAME COLUMN {quoted(old)} TO {quoted(new)}"


def _swap_names(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two columns change names in one transaction."""
    columns = [column for column in table.renamable if column.plain]
    if len(columns) < MIN_COLUMNS:
        return None
    first, second = draft.pen.sample(columns, 2)
    swapped = {first.name: replace(first, name=second.name), second.name: replace(second, name=first.name)}
    draft.keep(replace(table, columns=tuple(swapped.get(column.name, column) for column in table.columns)))
    aside = draft.maker.name("aside", odd=0)
    return Whole(
        (
            _renamed(table, first.name, aside),
            _renamed(table, second.name, first.name),
            _renamed(table, aside, second.name),
        )
    )


def _drop_and_add(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same name, another column, whose old values are gone; in one transaction or two."""
    columns = [column for column in table.droppable if not column.generated]
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    same = draft.pen.chance(0.4)
    new = (
        replace(gone, default="", nullable=True)
        if same
        else replace(draft.maker.column(), name=gone.name, generated="")
    )
    new = replace(new, nullable=True)
    draft.keep(_with(_without(table, gone), new))
    dropped, added = f"DROP COLUMN {quoted(gone.name)}", f"ADD COLUMN {quoted(new.name)} {new.declared()}"
    if draft.pen.chance(0.5):
        return (altered(table, dropped, added),)
    return (altered(table, dropped), altered(table, added))


def _several(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Add, drop and set in one statement."""
    columns = table.droppable
    if not columns:
        return None
    gone, new = draft.pen.choice(columns), replace(draft.maker.column(), nullable=True, generated="")
    draft.keep(_with(_without(table, gone), new))
    return (
        altered(
            table, f"DROP COLUMN {quoted(gone.name)}", f"ADD COLUMN IF NOT EXISTS {quoted(new.name)} {new.declared()}",
            "SET (autovacuum_enabled = false)", f"DROP COLUMN IF EXISTS {quoted('no such')}",
        ),
    )  # fmt: skip


# Defaults and nulls


def _change_default(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([c for c in table.plain if c.kind.has_default and not c.extra] or [None])
    if column is None:
        return None
    new = draft.maker.default(column.kind) if draft.pen.chance(0.7) else ""
    draft.keep(table.with_column(column.name, replace(column, default=new)))
    return (altered(table, f"ALTER COLUMN {quoted(column.name)} {f'SET DEFAULT {new}' if new else 'DROP DEFAULT'}"),)


def _change_nullability(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice(table.free or [None])
    if column is None or column.unique:
        return None
    draft.keep(table.with_column(column.name, replace(column, nullable=not column.nullable)))
    name = quoted(column.name)
    if not column.nullable:
        return (altered(table, f"ALTER COLUMN {name} DROP NOT NULL"),)
    filled = f"UPDATE {table.sql} SET {name} = {column.kind.value(draft.pen)} WHERE {name} IS NULL"
    return (filled, altered(table, f"ALTER COLUMN {name} SET NOT NULL"))


def _storage(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """How a value lies on disk decides whether the log shows it."""
    columns = [column for column in table.plain if column.kind.name in kinds.LARGE]
    if not columns:
        return None
    how = draft.pen.choice(("EXTERNAL", "MAIN", "EXTENDED"))
    return (altered(table, f"ALTER COLUMN {quoted(draft.pen.choice(columns).name)} SET STORAGE {how}"),)


def _comment(draft: SchemaDraft, table: TableModel) -> Statements:
    what = draft.pen.choice((f"TABLE {table.sql}", f"COLUMN {table.sql}.{quoted(table.columns[0].name)}"))
    return (f"COMMENT ON {what} IS {draft.pen.choice(('NULL', plain('a comment; it is `new`')))}",)


# Keys and indexes


def _add_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    indexable = [c for c in table.columns if c.kind.is_simple and c.kind.name not in (*kinds.LARGE, "array", "domain")]
    indexable = [c for c in indexable if "VIRTUAL" not in c.generated]
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


def _change_identity(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """To every column, the key's constraint, or back to the primary key."""
    if not isinstance(table, PostgresTable) or not table.key.columns or table.deferrable:
        return None
    usable = [how for how in ("full", table.constraint) if how and (how == "full" or not table.parts)]
    if table.key.declared == "PRIMARY KEY":
        usable.append("")
    new = replace(table, identity=draft.pen.choice(usable))
    draft.keep(new)
    return new.identified() or tuple(
        f"ALTER TABLE {quoted(name)} REPLICA IDENTITY DEFAULT" for name in (table.name, *table.parts)
    )


def _change_key(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Drop the key, lengthen it by a column, or give a table a new one; in one transaction, for without identity
    updates fail.
    """
    if not isinstance(table, PostgresTable) or table.parts:
        return None
    if not table.key.columns:
        return _new_key(draft, table)
    if not table.constraint or any(column.extra for column in table.columns):
        return None
    gone = f"DROP CONSTRAINT {quoted(table.constraint)}"
    more = [c for c in table.plain if not c.nullable and c.kind.name in (*kinds.INTEGERS, "time", "uuid")]
    if more and draft.pen.chance(0.6):
        columns = (*table.key.columns, more[0].name)
        name = draft.maker.name("key", odd=0)
        identity = name if table.identity == table.constraint else table.identity
        new = replace(table, key=replace(table.key, columns=columns), constraint=name, identity=identity)
        draft.keep(new)
        late = " DEFERRABLE INITIALLY DEFERRED" * table.deferrable
        added = f"ADD CONSTRAINT {quoted(name)} {table.key.declared} ({names(columns)}){late}"
        return Whole((altered(table, gone, added), *new.identified()))
    new = replace(
        table, key=replace(table.key, style="none", columns=()), constraint="", identity="full", deferrable=False
    )
    draft.keep(new)
    return Whole((*new.identified(), altered(table, gone)))


def _new_key(draft: SchemaDraft, table: PostgresTable) -> Statements:
    number = ColumnModel(
        draft.maker.name("id", odd=0), PostgresKind("integer"), nullable=False, number="plain",
        extra="GENERATED BY DEFAULT AS IDENTITY",
    )  # fmt: skip
    constraint = draft.maker.name("key", odd=0)
    key = KeyModel("identity", (number.name,))
    new = replace(table, columns=(*table.columns, number), key=key, constraint=constraint, identity="")
    draft.keep(new)
    added = f"ADD COLUMN {quoted(number.name)} {number.declared()} CONSTRAINT {quoted(constraint)} PRIMARY KEY"
    return Whole((altered(table, added), f"ALTER TABLE {table.sql} REPLICA IDENTITY DEFAULT"))


SOFT: dict[str, tuple[int, Operation]] = {
    "add column": (10, _add_column),
    "change default": (3, _change_default),
    "comment": (2, _comment),
    "storage": (3, _storage),
    "add index": (3, _add_index),
    "drop index": (3, _drop_index),
}
ALTERATIONS: dict[str, tuple[int, Operation]] = {
    **SOFT,
    "add generated column": (2, _add_generated),
    "drop expression": (5, _drop_expression),
    "drop column": (6, _drop_column),
    "rename column": (6, _rename_column),
    "swap column names": (2, _swap_names),
    **RETYPINGS,
    "change nullability": (3, _change_nullability),
    "change identity": (3, _change_identity),
    "change key": (5, _change_key),
    "drop and add column": (4, _drop_and_add),
    "several at once": (3, _several),
}
