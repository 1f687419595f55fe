"""Operations on a table's columns, keys and indexes: ALTER TABLE."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.model import Operation, SchemaDraft
from testing.workload.mysql import kinds
from testing.workload.mysql.kind_choice import any_collation
from testing.workload.mysql.kinds import MySQLKind
from testing.workload.mysql.rng_literals import names, quoted
from testing.workload.schemas import ColumnModel, Statements, TableModel

WIDER = {"tinyint": "smallint", "smallint": "mediumint", "mediumint": "int", "int": "bigint", "tinytext": "text",
         "text": "mediumtext", "mediumtext": "longtext", "tinyblob": "blob", "blob": "mediumblob",
         "float": "double"}  # fmt: skip
NARROWER = {wide: narrow for narrow, wide in WIDER.items()}
FRACTIONS = ("datetime", "timestamp", "time")
MIN_COLUMNS = 2


def place(draft: SchemaDraft, table: TableModel) -> tuple[str, int]:
    """FIRST, AFTER …, or nothing; and the place among the columns that it means."""
    pen = draft.pen
    if pen.chance(0.4):
        return "", len(table.columns)
    at = pen.randint(0, len(table.columns))
    return (" FIRST" if at == 0 else f" AFTER {quoted(table.columns[at - 1].name)}"), at


def _put(table: TableModel, at: int, column: ColumnModel) -> TableModel:
    return replace(table, columns=(*table.columns[:at], column, *table.columns[at:]))


def _add_column(draft: SchemaDraft, table: TableModel) -> Statements:
    column, (where, at) = draft.maker.column(), place(draft, table)
    draft.keep(_put(table, at, column))
    how = ", ALGORITHM=INPLACE" if draft.pen.chance(0.05) else ""
    return (f"ALTER TABLE {table.sql} ADD COLUMN {quoted(column.name)} {column.declared()}{where}{how}",)


def _add_generated(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.maker.generated(table.columns)
    if column is None:
        return None
    where, at = place(draft, table)
    draft.keep(_put(table, at, column))
    return (f"ALTER TABLE {table.sql} ADD COLUMN {quoted(column.name)} {column.declared()}{where}",)


def _drop_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = table.droppable
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    draft.keep(replace(table, columns=tuple(column for column in table.columns if column != gone)))
    return (f"ALTER TABLE {table.sql} DROP COLUMN {quoted(gone.name)}",)


def _rename_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = table.renamable
    if not columns:
        return None
    old = draft.pen.choice(columns)
    new = replace(old, name=draft.maker.name("r", odd=0.25))
    draft.keep(table.with_column(old.name, new))
    if draft.pen.chance(0.5):
        return (f"ALTER TABLE {table.sql} RENAME COLUMN {quoted(old.name)} TO {quoted(new.name)}",)
    return (f"ALTER TABLE {table.sql} CHANGE {quoted(old.name)} {quoted(new.name)} {new.declared()}",)


def _swap_names(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two columns change names in one statement."""
    columns = [column for column in table.renamable if column.plain]
    if len(columns) < MIN_COLUMNS:
        return None
    first, second = draft.pen.sample(columns, 2)
    swapped = {first.name: replace(first, name=second.name), second.name: replace(second, name=first.name)}
    draft.keep(replace(table, columns=tuple(swapped.get(column.name, column) for column in table.columns)))
    a, b = quoted(first.name), quoted(second.name)
    return (f"ALTER TABLE {table.sql} CHANGE {a} {b} {first.declared()}, CHANGE {b} {a} {second.declared()}",)


def _modified(
    draft: SchemaDraft, table: TableModel, column: ColumnModel, new: ColumnModel, where: str = ""
) -> Statements:
    draft.keep(table.with_column(column.name, new))
    return (f"ALTER TABLE {table.sql} MODIFY {quoted(column.name)} {new.declared()}{where}",)


def wider(kind: MySQLKind) -> MySQLKind | None:
    """A type that holds all of the values and more; None where there is none here."""
    size, scale = kind.size or 1, kind.scale or 0
    most_digits, most_bits = 60, 60
    match kind.name:
        case name if name in WIDER:
            return replace(kind, name=WIDER[name], size=None, scale=None)
        case "varchar" | "varbinary":
            return replace(kind, size=min(size * 2, 2000))
        case "char":
            return replace(kind, size=min(size * 2, 250))
        case "decimal" if size <= most_digits:
            return replace(kind, size=size + 5, scale=min(30, scale + 2))
        case "bit" if size < most_bits:
            return replace(kind, size=size + 3)
        case _:
            return _longer(kind)


def _longer(kind: MySQLKind) -> MySQLKind | None:
    if kind.name in ("enum", "set"):
        return replace(kind, labels=(*kind.labels, f"new {len(kind.labels)}"))
    return replace(kind, size=6) if kind.name in FRACTIONS else None


def narrower(kind: MySQLKind) -> MySQLKind | None:
    """A type that holds only some of the values; None where there is none here."""
    match kind.name:
        # Without strict mode MySQL cuts a character in two, which no reader takes for text.
        case name if name in NARROWER and (name != "text" or kind.charset == "latin1"):
            return replace(kind, name=NARROWER[name], size=None, scale=None)
        case "varchar" | "varbinary" | "char" | "binary":
            return replace(kind, size=max(1, (kind.size or 2) // 2))
        case "decimal" if kind.scale:
            return replace(kind, scale=kind.scale - 1)
        case name if name in FRACTIONS:
            return replace(kind, size=None)
        case name if name in (*kinds.INTEGERS, "decimal", "float", "double"):
            return replace(kind, unsigned=not kind.unsigned, zerofill=False)
        case _:
            return None


def _widen(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([*table.free, *(c for c in table.columns if c.number == "text")] or [None])
    new = wider(column.kind) if column and isinstance(column.kind, MySQLKind) else None
    if column is None or new is None or column.extra:
        return None
    return _modified(draft, table, column, replace(column, kind=new))


def _narrow(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice(table.free or [None])
    new = narrower(column.kind) if column and isinstance(column.kind, MySQLKind) else None
    if column is None or new is None or column.extra:
        return None
    default = draft.maker.default(new) if column.default else ""
    return _modified(draft, table, column, replace(column, kind=new, default=default))


def _unsigned(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """What is below zero becomes zero, where sql_mode lets it."""
    numbers = (*kinds.INTEGERS, "decimal", "float", "double")
    signed = [c for c in table.free if isinstance(c.kind, MySQLKind) and c.kind.name in numbers and not c.kind.unsigned]
    column = draft.pen.choice(signed or [None])
    if column is None or column.extra:
        return None
    assert isinstance(column.kind, MySQLKind)
    kind = replace(column.kind, unsigned=True, zerofill=draft.pen.chance(0.3))
    made = _modified(draft, table, column, replace(column, kind=kind, default=""))
    name, lenient = quoted(column.name), ("SET @sql_mode_before = @@sql_mode", "SET SESSION sql_mode = ''")
    below = f"UPDATE IGNORE {table.sql} SET {name} = -1.5 WHERE {name} IS NOT NULL LIMIT 3"
    return (*lenient, below, *made, "SET SESSION sql_mode = @sql_mode_before")


def _digits(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Digits behind the point are only shown otherwise, or go: then, or when a later statement copies the table."""
    floats = [
        c for c in table.free if isinstance(c.kind, MySQLKind) and c.kind.name in ("float", "double") and not c.extra
    ]
    column = draft.pen.choice(floats or [None])
    if column is None:
        return None
    name, pen = quoted(column.name), draft.pen
    assert isinstance(column.kind, MySQLKind)
    kind = replace(column.kind, size=pen.choice((9, 12)), scale=pen.choice((1, 4)))
    (made,) = _modified(draft, table, column, replace(column, kind=kind, default=""))
    drawn = f"UPDATE {table.sql} SET {name} = 123.456789 WHERE {name} IS NOT NULL"
    return (drawn, made + pen.choice(("", "", ", ALGORITHM=COPY")))


def _retype(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """To text, which holds everything, or to any other type, which may fail."""
    column = draft.pen.choice([column for column in table.free if column.kind.is_simple] or [None])
    if column is None:
        return None
    text = MySQLKind("varchar", 400, collation=draft.pen.choice(kinds.COMMON[:3]))
    kind = text if draft.pen.chance(0.7) else draft.maker.kind()
    return _modified(draft, table, column, ColumnModel(column.name, kind, comment=column.comment))


def _reorder(draft: SchemaDraft, table: TableModel) -> Statements | None:
    columns = [column for column in table.columns if not column.generated]
    moving = draft.pen.choice(columns)
    others = [column for column in table.columns if column != moving]
    if not others:
        return None
    at = draft.pen.randint(0, len(others))
    where = " FIRST" if at == 0 else f" AFTER {quoted(others[at - 1].name)}"
    draft.keep(replace(table, columns=(*others[:at], moving, *others[at:])))
    return (f"ALTER TABLE {table.sql} MODIFY {quoted(moving.name)} {moving.declared()}{where}",)


def _change_default(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([c for c in table.plain if c.kind.has_default and not c.extra] or [None])
    if column is None:
        return None
    new = draft.maker.default(column.kind) if draft.pen.chance(0.7) else ""
    draft.keep(table.with_column(column.name, replace(column, default=new)))
    change = f"SET DEFAULT {new}" if new else "DROP DEFAULT"
    return (f"ALTER TABLE {table.sql} ALTER COLUMN {quoted(column.name)} {change}",)


def _change_nullability(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice(table.free or [None])
    if column is None or column.invisible:
        return None
    changed = _modified(draft, table, column, replace(column, nullable=not column.nullable))
    if not column.nullable:
        return changed
    name = quoted(column.name)
    return (f"UPDATE {table.sql} SET {name} = {column.kind.value(draft.pen)} WHERE {name} IS NULL", *changed)


def _change_charset(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([column for column in table.free if column.kind.collation] or [None])
    if column is None:
        return None
    wide = draft.pen.choice(
        ("utf8mb4_bin", "utf8mb4_general_ci", "utf16_general_ci", any_collation(draft.pen, draft.dialect))
    )
    return _modified(draft, table, column, replace(column, kind=replace(column.kind, collation=wide)))


def _convert(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Every text column; the server makes the long ones longer if need be."""
    if any(_spoiled(column) for column in table.columns):
        return None

    def changed(column: ColumnModel) -> ColumnModel:
        return replace(column, kind=replace(column.kind, collation="utf8mb4_bin")) if column.kind.collation else column

    draft.keep(replace(table, columns=tuple(changed(column) for column in table.columns)))
    return (f"ALTER TABLE {table.sql} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",)


def _spoiled(column: ColumnModel) -> bool:
    """Would CONVERT TO CHARACTER SET break the column's labels?

    MariaDB 11.4 and MySQL 8.0.12 keep the labels' bytes of the old character set: these are not valid texts in the new
    one, and the rows' values are lost.
    """
    return bool(column.kind.labels) and not column.kind.collation.startswith("utf8")


def _comment(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice(table.plain or [None])
    if column is None:
        return None
    return _modified(draft, table, column, replace(column, comment="'now, with; a `comment`'"))


def _comment_table(draft: SchemaDraft, table: TableModel) -> Statements:
    what = draft.pen.choice(("COMMENT = 'new'", "FORCE", "ENGINE = InnoDB"))
    return (f"ALTER TABLE {table.sql} {what}",)


def _hide_column(draft: SchemaDraft, table: TableModel) -> Statements | None:
    column = draft.pen.choice([column for column in table.free if column.nullable or column.default] or [None])
    if column is None or draft.dialect != "mariadb" or len(table.plain) <= MIN_COLUMNS:
        return None
    return _modified(draft, table, column, replace(column, invisible=not column.invisible))


def _add_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    indexable = [c for c in table.columns if c.kind.is_simple and c.kind.name not in kinds.LONG_TEXTS]
    if not indexable:
        return None
    name = draft.maker.name("i", odd=0.1)
    column = quoted(draft.pen.choice(indexable).name)
    draft.keep(replace(table, indexes=(*table.indexes, name)))
    if draft.pen.chance(0.5):
        return (f"CREATE INDEX {quoted(name)} ON {table.sql} ({column})",)
    return (f"ALTER TABLE {table.sql} ADD KEY {quoted(name)} ({column})",)


def _drop_index(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.indexes:
        return None
    name = draft.pen.choice(table.indexes)
    draft.keep(replace(table, indexes=tuple(index for index in table.indexes if index != name)))
    if draft.pen.chance(0.5):
        return (f"DROP INDEX {quoted(name)} ON {table.sql}",)
    return (f"ALTER TABLE {table.sql} DROP INDEX {quoted(name)}",)


def _change_key(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Drop the primary key, lengthen it by a column, or give a table a new one."""
    pen, key = draft.pen, table.key
    if table.partitions or any(column.extra == "AUTO_INCREMENT" for column in table.columns):
        return None
    if not key.columns:
        column = ColumnModel(
            draft.maker.name("id", odd=0), MySQLKind("int"), nullable=False, number="plain", extra="AUTO_INCREMENT"
        )
        new = replace(key, style="auto", columns=(column.name,), declared="PRIMARY KEY")
        draft.keep(replace(table, columns=(column, *table.columns), key=new))
        return (f"ALTER TABLE {table.sql} ADD COLUMN {quoted(column.name)} {column.declared()} PRIMARY KEY FIRST",)
    if key.declared != "PRIMARY KEY" or any(table.column(c).kind.name in kinds.LONG_TEXTS for c in key.columns):
        return None
    more = [c for c in table.plain if not c.nullable and c.kind.name in (*kinds.INTEGERS, "time", "bit")]
    if more and pen.chance(0.6):
        columns = (*key.columns, more[0].name)
        draft.keep(replace(table, key=replace(key, columns=columns)))
        return (f"ALTER TABLE {table.sql} DROP PRIMARY KEY, ADD PRIMARY KEY ({names(columns)})",)
    draft.keep(replace(table, key=replace(key, style="none", columns=())))
    return (f"ALTER TABLE {table.sql} DROP PRIMARY KEY",)


def _drop_and_add(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same name in one statement: another column, whose old values are gone."""
    columns = [column for column in table.droppable if not column.generated]
    if not columns:
        return None
    gone = draft.pen.choice(columns)
    same = draft.pen.chance(0.4)
    new = replace(gone, default="", nullable=True) if same else replace(draft.maker.column(), name=gone.name)
    rest = tuple(column for column in table.columns if column != gone)
    draft.keep(replace(table, columns=(*rest, new)))
    name = quoted(gone.name)
    return (f"ALTER TABLE {table.sql} DROP COLUMN {name}, ADD COLUMN {name} {new.declared()}",)


def _several(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Add, drop and rename in one statement."""
    columns = table.droppable
    if not columns:
        return None
    gone, new = draft.pen.choice(columns), draft.maker.column()
    rest = tuple(column for column in table.columns if column != gone)
    draft.keep(replace(table, columns=(new, *rest)))
    added = f"ADD COLUMN {quoted(new.name)} {new.declared()} FIRST"
    return (f"ALTER TABLE {table.sql} DROP COLUMN {quoted(gone.name)}, {added}, COMMENT 'several; at once'",)


def _if_exists(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """What is there already, and what is not, with IF [NOT] EXISTS: half of it changes nothing."""
    columns = table.droppable
    if draft.dialect != "mariadb" or not columns:
        return None
    gone, new = draft.pen.choice(columns), draft.maker.column()
    draft.keep(replace(table, columns=(*(column for column in table.columns if column != gone), new)))
    same = table.columns[0] if table.columns[0] != gone else table.columns[1]
    dropped = f"DROP COLUMN IF EXISTS {quoted(gone.name)}, DROP COLUMN IF EXISTS `no such`"
    there, added = f"{quoted(same.name)} INT", f"{quoted(new.name)} {new.declared()}"
    added = f"ADD COLUMN IF NOT EXISTS {there}, ADD COLUMN IF NOT EXISTS {added}"
    return (f"ALTER TABLE {table.sql} {dropped}, {added}",)


SOFT: dict[str, tuple[int, Operation]] = {
    "add column": (10, _add_column),
    "change default": (3, _change_default),
    "comment": (2, _comment),
    "comment table": (2, _comment_table),
    "add index": (3, _add_index),
    "drop index": (3, _drop_index),
}


def _change_engine(draft: SchemaDraft, table: TableModel) -> Statements:
    """Rows of MyISAM and Aria, and what the log has of them, may differ when the server is killed."""
    lasting = ("MyISAM", "Aria") if draft.dialect == "mariadb" else ("MyISAM",)
    engine = draft.pen.choice(("InnoDB", "InnoDB", "MEMORY", *(lasting if draft.unkilled else ())))
    draft.used[f"engine {engine}"] += 1
    return (f"ALTER TABLE {table.sql} ENGINE={engine}",)


ALTERATIONS: dict[str, tuple[int, Operation]] = {
    **SOFT,
    "add generated column": (2, _add_generated),
    "drop column": (6, _drop_column),
    "rename column": (6, _rename_column),
    "swap column names": (2, _swap_names),
    "widen": (5, _widen),
    "narrow": (3, _narrow),
    "unsigned": (3, _unsigned),
    "digits": (2, _digits),
    "retype": (2, _retype),
    "reorder": (4, _reorder),
    "change nullability": (3, _change_nullability),
    "change charset": (4, _change_charset),
    "convert": (2, _convert),
    "hide column": (2, _hide_column),
    "change key": (5, _change_key),
    "drop and add column": (4, _drop_and_add),
    "several at once": (3, _several),
    "change engine": (2, _change_engine),
    "alter if exists": (2, _if_exists),
}
