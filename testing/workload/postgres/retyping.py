"""Operations on the types of columns: ALTER COLUMN … TYPE, and ALTER TYPE of an enum."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import inserted
from testing.workload.model import Alone, Operation, SchemaDraft
from testing.workload.postgres.schemas import SchemaMaker
from testing.workload.postgres.values import kinds
from testing.workload.postgres.values.kinds import PostgresKind
from testing.workload.postgres.values.rng_literals import quoted, text
from testing.workload.postgres.values.user_types import renewed
from testing.workload.rng_literals import plain
from testing.workload.schemas import ColumnModel, Statements, TableModel

WIDER = {
    "smallint": "integer",
    "integer": "bigint",
    "real": "double precision",
    "varchar": "text",
    "date": "timestamp",
    "char": "text",
}
NARROWER = {
    "bigint": "integer",
    "integer": "smallint",
    "double precision": "real",
    "text": "varchar",
    "timestamp": "date",
}
MAX_LABELS = 12


def altered(table: TableModel, *clauses: str) -> str:
    """ALTER TABLE with these clauses."""
    return f"ALTER TABLE {table.sql} {', '.join(clauses)}"


def wider(kind: PostgresKind) -> PostgresKind | None:
    """A type that holds all of the values and more; None where there is none here."""
    size, scale, most_digits = kind.size or 1, kind.scale or 0, 60
    if kind.name == "varchar" and kind.size and size <= most_digits:
        return replace(kind, size=size * 2)
    if kind.name == "char" and kind.size:
        return replace(kind, size=size * 2)
    if kind.name in WIDER:
        collation = kind.collation if WIDER[kind.name] in kinds.CHARACTERS else ""
        return replace(kind, name=WIDER[kind.name], size=None, scale=None, collation=collation)
    if kind.name == "numeric":
        return replace(kind, size=size + 5, scale=scale + 2) if kind.size and 0 <= scale < size <= most_digits else None
    return (
        replace(kind, size=None)
        if kind.name in ("timestamp", "timestamptz", "bit varying", "time") and kind.size
        else None
    )


def narrower(kind: PostgresKind) -> PostgresKind | None:
    """A type that holds only some of the values; None where there is none here."""
    if kind.name in NARROWER and not kind.large:
        new = replace(kind, name=NARROWER[kind.name], size=None, scale=None)
        return replace(new, size=30) if new.name == "varchar" else new
    if kind.name in ("varchar", "char") and kind.size and kind.size > 1:
        return replace(kind, size=kind.size // 2)
    if kind.name == "numeric" and kind.scale and kind.scale > 0 and (kind.size or 0) > kind.scale:
        return replace(kind, scale=kind.scale - 1)
    return replace(kind, size=1) if kind.name in ("timestamp", "timestamptz", "time") else None


def _retyped(
    draft: SchemaDraft, table: TableModel, column: ColumnModel, kind: PostgresKind, using: str = ""
) -> Statements:
    """ALTER COLUMN … TYPE; the default goes first, it may not fit."""
    new = replace(column, kind=kind, default="")
    draft.keep(table.with_column(column.name, new))
    name = quoted(column.name)
    dropped = (f"ALTER COLUMN {name} DROP DEFAULT",) if column.default else ()
    return (
        altered(
            table, *dropped, f"ALTER COLUMN {name} {draft.pen.choice(('', 'SET DATA '))}TYPE {kind.declared()}{using}"
        ),
    )


def _changeable(table: TableModel) -> list[tuple[ColumnModel, PostgresKind]]:
    columns = [column for column in table.free if not column.unique and not column.extra]
    return [(column, column.kind) for column in columns if isinstance(column.kind, PostgresKind)]


def _keys(table: TableModel) -> list[tuple[ColumnModel, PostgresKind]]:
    """Parts of the key that may become wider."""
    if table.has_parts or table.constraints:
        return []
    columns = [c for c in table.columns if c.number in ("plain", "text") and not c.extra and c in table.renamable]
    return [(column, column.kind) for column in columns if isinstance(column.kind, PostgresKind)]


def _widen(draft: SchemaDraft, table: TableModel) -> Statements | None:
    changes = [(column, wide) for column, kind in (*_changeable(table), *_keys(table)) if (wide := wider(kind))]
    return _retyped(draft, table, *draft.pen.choice(changes)) if changes else None


def _narrow(draft: SchemaDraft, table: TableModel) -> Statements | None:
    changes = [(column, narrow) for column, kind in _changeable(table) if (narrow := narrower(kind))]
    if not changes:
        return None
    column, new = draft.pen.choice(changes)
    using = ""
    if new.name in ("varchar", "char") and draft.pen.chance(0.7):
        using = f" USING left({quoted(column.name)}, {new.size or 1})"
    return _retyped(draft, table, column, new, using)


def _retype(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """To text, which holds everything, or to any type by an expression."""
    columns = _changeable(table)
    if not columns:
        return None
    column, _ = draft.pen.choice(columns)
    name = quoted(column.name)
    if draft.pen.chance(0.5):
        return _retyped(draft, table, column, PostgresKind("text"), f" USING {name}::text")
    new = draft.maker.kind()
    assert isinstance(new, PostgresKind)
    draft.used["retype by an expression"] += 1
    value = replace(new, large=False).value(draft.pen)  # no subquery may stand there
    other = f"CASE WHEN hashtext({name}::text) % 3 = 0 THEN {value} END" if column.nullable else value
    return _retyped(draft, table, column, new, f" USING {other}")


def _add_label(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """ALTER TYPE … ADD VALUE: no table changes."""
    maker = draft.maker
    assert isinstance(maker, SchemaMaker)
    kind = draft.pen.choice(maker.types.enums)
    if len(kind.labels) >= MAX_LABELS:
        return None
    label, at = f"new {maker.name('label', odd=0)}", draft.pen.choice(("", "BEFORE", "AFTER"))
    where = f" {at} {text(draft.pen.choice(kind.labels), draft.pen)}" if at else ""
    _change_type(draft, kind, replace(kind, labels=(*kind.labels, label)))
    return Alone((f"ALTER TYPE {kind.user} ADD VALUE {plain(label)}{where}",))


def _rename_label(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """ALTER TYPE … RENAME VALUE: every row that holds it reads otherwise, and the log shows nothing of it."""
    maker = draft.maker
    assert isinstance(maker, SchemaMaker)
    kind = draft.pen.choice(maker.types.enums)
    old, new = draft.pen.choice(kind.labels), f"old {maker.name('label', odd=0)}"
    labels = tuple(new if label == old else label for label in kind.labels)
    _change_type(draft, kind, replace(kind, labels=labels))
    return Alone((f"ALTER TYPE {kind.user} RENAME VALUE {text(old, draft.pen)} TO {plain(new)}",))


def _rename_label_and_back(draft: SchemaDraft, table: TableModel) -> Statements:
    """Rows of the time between have the other label in the log, and only the type's own catalog row tells
    afterwards.
    """
    maker = draft.maker
    assert isinstance(maker, SchemaMaker)
    kind = draft.pen.choice(maker.types.enums)
    old, new = draft.pen.choice(kind.labels), f"between {maker.name('label', odd=0)}"
    between = replace(kind, labels=tuple(new if label == old else label for label in kind.labels))
    _change_type(draft, kind, between)
    rows = inserted(draft, draft.tables[table.name], draft.pen.randint(2, 10))
    _change_type(draft, between, kind)
    there = f"ALTER TYPE {kind.user} RENAME VALUE {text(old, draft.pen)} TO {plain(new)}"
    return Alone((there, rows, f"ALTER TYPE {kind.user} RENAME VALUE {plain(new)} TO {text(old, draft.pen)}"))


def _recompute(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """ALTER COLUMN … TYPE to the type that it has, by an expression; once, or twice."""
    how = {
        "smallint": "{} / 2",
        "integer": "{} / 2",
        "bigint": "{} - {} % 3",
        "text": "reverse({})",
        "varchar": "reverse({})",
    }
    columns = [(column, kind) for column, kind in _changeable(table) if kind.name in how]
    if not columns:
        return None
    column, kind = draft.pen.choice(columns)
    name = quoted(column.name)
    statements = _retyped(draft, table, column, kind, f" USING {how[kind.name].format(name, name)}")
    return (*statements, *statements[: draft.pen.randint(0, 1)])


def _change_type(draft: SchemaDraft, old: PostgresKind, new: PostgresKind) -> None:
    assert isinstance(draft.maker, SchemaMaker)
    draft.maker.types.changed(old, new)
    for name, table in draft.tables.items():
        columns = tuple(
            replace(column, kind=renewed(column.kind, new)) if isinstance(column.kind, PostgresKind) else column
            for column in table.columns
        )
        draft.tables[name] = replace(table, columns=columns)


RETYPINGS: dict[str, tuple[int, Operation]] = {
    "widen": (6, _widen),
    "narrow": (4, _narrow),
    "retype": (4, _retype),
    "add label": (2, _add_label),
    "rename label": (2, _rename_label),
    "rename label and back": (2, _rename_label_and_back),
    "recompute": (3, _recompute),
}
