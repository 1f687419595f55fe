"""Operations on rows, in all shapes that SQL has."""

from __future__ import annotations

from collections.abc import Sequence

from replicator.testing import kinds
from replicator.testing.draft import Draft, Operation, Statements
from replicator.testing.keys import numbered
from replicator.testing.literals import Pen, names, numbers, quoted
from replicator.testing.schemas import ColumnModel, TableModel

LARGE = 3000


def value(pen: Pen, column: ColumnModel) -> str:
    """A literal for the column."""
    if column.unique:
        return pen.choice(("NULL", str(pen.randint(1, 2000))))
    if column.nullable and pen.chance(0.15):
        return "NULL"
    if column.default and pen.chance(0.05):
        return "DEFAULT"
    return column.kind.value(pen)


def row(pen: Pen, columns: Sequence[ColumnModel], number: int) -> str:
    """One row of VALUES."""
    return f"({', '.join(_cell(pen, column, number) for column in columns)})"


def _cell(pen: Pen, column: ColumnModel, number: int) -> str:
    if column.number:
        return numbered(column.number, str(number), column.kind)
    if column.unique:  # no two of one statement are equal
        return pen.choice(("NULL", str(number * 7 % 4001)))
    return value(pen, column)


def filled(pen: Pen, table: TableModel) -> list[ColumnModel]:
    """The columns that an INSERT names: those that must be, and most of the others."""
    return [
        column
        for column in table.writable
        if column.number or (not column.nullable and not column.default) or pen.chance(0.85)
    ]


def inserted(draft: Draft, table: TableModel, count: int, verb: str = "INSERT INTO", *, again: bool = False) -> str:
    """Rows by VALUES; `again`: numbers that are probably taken."""
    columns = filled(draft.pen, table)
    first = int(draft.number(table)) if again else draft.grown(table, count) + 1
    rows = ", ".join(row(draft.pen, columns, first + at) for at in range(count))
    return f"{verb} {table.sql} ({names([column.name for column in columns])}) VALUES {rows}"


def _bulk_cell(pen: Pen, column: ColumnModel, number: str) -> str:
    if column.number:
        return numbered(column.number, number, column.kind)
    if column.unique:
        return "NULL"
    if column.kind.name in (*kinds.GEOMETRIES, "bit", "json"):
        return column.kind.value(pen)
    values = [column.kind.value(pen) for _ in range(3)]
    if column.nullable:
        values[2] = "NULL"
    return f"CASE n % 3 WHEN 0 THEN {values[0]} WHEN 1 THEN {values[1]} ELSE {values[2]} END"


def bulk(draft: Draft, table: TableModel, count: int) -> str:
    """Many rows by INSERT … SELECT."""
    columns = filled(draft.pen, table)
    top = draft.grown(table, count)
    cells = ", ".join(_bulk_cell(draft.pen, column, f"(n + {top + 1})") for column in columns)
    listed = names([column.name for column in columns])
    return f"INSERT INTO {table.sql} ({listed}) SELECT {cells} FROM {numbers(count, draft.pen, draft.dialect)}"


def _insert_one(draft: Draft, table: TableModel) -> Statements:
    return (inserted(draft, table, 1),)


def _insert_many(draft: Draft, table: TableModel) -> Statements:
    return (inserted(draft, table, draft.pen.randint(2, 30)),)


def _insert_large(draft: Draft, table: TableModel) -> Statements | None:
    if table.top > 2 * LARGE:
        return None
    return (bulk(draft, table, draft.pen.choice((200, 700, LARGE))),)


def _insert_select_self(draft: Draft, table: TableModel) -> Statements | None:
    """Equal rows again in a table without key; with an auto-increment key, all but the key."""
    keys = [column for column in table.columns if column.name in table.key.columns]
    if not all(column.extra == "AUTO_INCREMENT" for column in keys) or table.top > LARGE:
        return None
    listed = names([column.name for column in table.writable if column.name not in table.key.columns])
    count = draft.pen.randint(1, 40)
    draft.grown(table, count)
    return (f"INSERT INTO {table.sql} ({listed}) SELECT {listed} FROM {table.sql} LIMIT {count}",)


def _insert_returning(draft: Draft, table: TableModel) -> Statements | None:
    if draft.dialect != "mariadb":
        return None
    name = quoted(table.columns[0].name)
    return (
        f"{inserted(draft, table, 2)} RETURNING {name}",
        f"DELETE FROM {table.sql} WHERE {one(draft, table)} RETURNING 1",
    )


def _insert_set(draft: Draft, table: TableModel) -> Statements:
    number = str(draft.grown(table, 1) + 1)
    cells = [
        f"{quoted(c.name)} = {numbered(c.number, number, c.kind) if c.number else value(draft.pen, c)}"
        for c in filled(draft.pen, table)
    ]
    return (f"INSERT INTO {table.sql} SET {', '.join(cells)}",)


def _insert_ignore(draft: Draft, table: TableModel) -> Statements:
    return (inserted(draft, table, draft.pen.randint(1, 6), "INSERT IGNORE INTO", again=True),)


def _replace(draft: Draft, table: TableModel) -> Statements:
    return (inserted(draft, table, draft.pen.randint(1, 6), "REPLACE INTO", again=True),)


def _upsert(draft: Draft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    statement = inserted(draft, table, draft.pen.randint(1, 6), again=draft.pen.chance(0.7))
    column = quoted(draft.pen.choice(table.plain).name)
    other = assignments(draft, table)
    return (f"{statement} ON DUPLICATE KEY UPDATE {draft.pen.choice((f'{column} = VALUES({column})', other))}",)


def assignments(draft: Draft, table: TableModel) -> str:
    """One to three columns get new values; the table must have plain ones."""
    pen = draft.pen
    chosen = pen.sample(table.plain, min(len(table.plain), pen.randint(1, 3)))
    return ", ".join(f"{quoted(column.name)} = {value(pen, column)}" for column in chosen)


def one(draft: Draft, table: TableModel) -> str:
    """A condition for one row (in a table without key: for some equal ones)."""
    return table.found(draft.number(table))


def some(draft: Draft, table: TableModel) -> str:
    """A condition for several rows, none, or all."""
    pen = draft.pen
    first = int(draft.number(table))
    shape = pen.choice(("or", "hash", "null", "between", "not null", "hash"))
    simple = [column for column in table.columns if column.kind.is_simple]
    nullable = [column for column in simple if column.nullable and not column.number]
    if shape == "between":
        ranged = [column for column in table.columns if column.number == "plain"]
        if ranged:
            return f"{quoted(ranged[0].name)} BETWEEN {first} AND {first + pen.randint(0, 60)}"
    if shape in ("null", "not null") and nullable:
        return f"{quoted(pen.choice(nullable).name)} IS {shape.upper()}"
    if shape == "hash" and simple:
        return f"CRC32(CONCAT({quoted(pen.choice(simple).name)})) % 7 = {pen.randrange(7)}"
    return " OR ".join(f"({table.found(str(first + at))})" for at in range(pen.randint(1, 8)))


def _update_one(draft: Draft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {one(draft, table)}",)


def _update_some(draft: Draft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {some(draft, table)}",)


def _update_limit(draft: Draft, table: TableModel) -> Statements | None:
    simple = [column for column in table.columns if column.kind.is_simple]
    if not table.plain or not simple:
        return None
    order = f"{quoted(draft.pen.choice(simple).name)}{draft.pen.choice((' DESC', ''))}"
    return (f"UPDATE {table.sql} SET {assignments(draft, table)} ORDER BY {order} LIMIT {draft.pen.randint(1, 20)}",)


def _update_all(draft: Draft, table: TableModel) -> Statements | None:
    return (f"UPDATE {table.sql} SET {assignments(draft, table)}",) if table.plain else None


def _update_nothing(draft: Draft, table: TableModel) -> Statements | None:
    """To the values that are there: no event, or one whose images are equal."""
    if not table.plain:
        return None
    column = quoted(draft.pen.choice(table.plain).name)
    return (f"UPDATE {table.sql} SET {column} = {column} WHERE {some(draft, table)}",)


def _toggle_null(draft: Draft, table: TableModel) -> Statements | None:
    nullable = [column for column in table.plain if column.nullable and column.kind.is_simple]
    if not nullable:
        return None
    column = draft.pen.choice(nullable)
    name = quoted(column.name)
    new = f"CASE WHEN {name} IS NULL THEN {column.kind.value(draft.pen)} END"
    return (f"UPDATE {table.sql} SET {name} = {new} WHERE {some(draft, table)}",)


def _hot_row(draft: Draft, table: TableModel) -> Statements | None:
    """One row many times, so that only the last value counts."""
    if not table.plain:
        return None
    where = one(draft, table)
    count = draft.pen.randint(3, 12)
    return tuple(f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {where}" for _ in range(count))


def _delete_one(draft: Draft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql} WHERE {one(draft, table)}",)


def _delete_some(draft: Draft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql} WHERE {some(draft, table)}",)


def _delete_limit(draft: Draft, table: TableModel) -> Statements:
    where = draft.pen.choice(("", f" WHERE {one(draft, table)}"))
    return (f"DELETE FROM {table.sql}{where} LIMIT {draft.pen.randint(1, 9)}",)


def _delete_all(_draft: Draft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql}",)


def _delete_insert(draft: Draft, table: TableModel) -> Statements:
    """One key goes and comes back."""
    number = int(draft.number(table))
    columns = filled(draft.pen, table)
    listed = names([column.name for column in columns])
    again = f"INSERT INTO {table.sql} ({listed}) VALUES {row(draft.pen, columns, number)}"
    return (f"DELETE FROM {table.sql} WHERE {table.found(str(number))}", again)


def _insert_delete(draft: Draft, table: TableModel) -> Statements:
    """A row that comes and goes."""
    statement = inserted(draft, table, 1)
    return (statement, f"DELETE FROM {table.sql} WHERE {table.found(str(draft.tables[table.name].top))}")


def _insert_update(draft: Draft, table: TableModel) -> Statements | None:
    """A row that is changed at once."""
    if not table.plain:
        return None
    statement = inserted(draft, table, 1)
    where = table.found(str(draft.tables[table.name].top))
    return (statement, f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {where}")


def moved(table: TableModel, old: str, new: str) -> str:
    """UPDATE of a row's key."""
    cells = [f"{quoted(c.name)} = {numbered(c.number, new, c.kind)}" for c in table.columns if c.number]
    return f"UPDATE {table.sql} SET {', '.join(cells)} WHERE {table.found(old)}"


def _move_key(draft: Draft, table: TableModel) -> Statements:
    new = draft.grown(table, 1) + 1
    return (moved(table, draft.number(table), str(new)),)


def _move_key_and_back(draft: Draft, table: TableModel) -> Statements:
    new, old = str(draft.grown(table, 1) + 1), draft.number(table)
    return (moved(table, old, new), moved(table, new, old))


def _swap_keys(draft: Draft, table: TableModel) -> Statements | None:
    """Two rows change places through a third number."""
    first, second = draft.number(table), draft.number(table)
    if first == second:
        return None
    aside = str(draft.grown(table, 1) + 1)
    return (moved(table, first, aside), moved(table, second, first), moved(table, aside, second))


def _shift_keys(draft: Draft, table: TableModel) -> Statements | None:
    """Every key takes its neighbour's."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not ranged or not table.key.columns:
        return None
    name = quoted(ranged[0].name)
    return (f"UPDATE {table.sql} SET {name} = {name} + 1 ORDER BY {name} DESC LIMIT {draft.pen.randint(2, 30)}",)


def _respell_key(draft: Draft, table: TableModel) -> Statements | None:
    """The same key under the collation, in other letters."""
    texts = [column for column in table.columns if column.number == "text"]
    if not texts:
        return None
    name = quoted(texts[0].name)
    how = draft.pen.choice((f"UPPER({name})", f"LOWER({name})", f"CONCAT({name}, ' ')"))
    return (f"UPDATE {table.sql} SET {name} = {how} WHERE {some(draft, table)}",)


def _other(draft: Draft, table: TableModel) -> TableModel | None:
    others = [other for other in draft.tables.values() if other.name != table.name and not other.refused]
    return draft.pen.choice(others) if others else None


def _update_two(draft: Draft, table: TableModel) -> Statements | None:
    """One statement for two tables."""
    other = _other(draft, table)
    if other is None or not table.plain or not other.plain:
        return None
    pen = draft.pen
    first, second = pen.choice(table.plain), pen.choice(other.plain)
    sets = f"a.{quoted(first.name)} = {value(pen, first)}, b.{quoted(second.name)} = {value(pen, second)}"
    where = f"{_aliased('a', table, draft)} AND {_aliased('b', other, draft)}"
    return (f"UPDATE {table.sql} a, {other.sql} b SET {sets} WHERE {where}",)


def _delete_two(draft: Draft, table: TableModel) -> Statements | None:
    other = _other(draft, table)
    if other is None:
        return None
    where = f"{_aliased('a', table, draft)} AND {_aliased('b', other, draft)}"
    return (f"DELETE a, b FROM {table.sql} a, {other.sql} b WHERE {where}",)


def _aliased(alias: str, table: TableModel, draft: Draft) -> str:
    number = draft.number(table)
    cells = [f"{alias}.{quoted(c.name)} = {numbered(c.number, number, c.kind)}" for c in table.columns if c.number]
    return " AND ".join(cells) or "TRUE"


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "insert one": (10, _insert_one),
    "insert many": (6, _insert_many),
    "insert large": (1, _insert_large),
    "insert set": (2, _insert_set),
    "insert returning": (1, _insert_returning),
    "insert select self": (4, _insert_select_self),
    "insert ignore": (3, _insert_ignore),
    "replace": (4, _replace),
    "upsert": (4, _upsert),
    "update one": (12, _update_one),
    "update some": (4, _update_some),
    "update limit": (2, _update_limit),
    "update all": (1, _update_all),
    "update nothing": (2, _update_nothing),
    "toggle null": (2, _toggle_null),
    "hot row": (3, _hot_row),
    "delete one": (6, _delete_one),
    "delete some": (2, _delete_some),
    "delete limit": (2, _delete_limit),
    "delete and insert": (5, _delete_insert),
    "insert and delete": (3, _insert_delete),
    "insert and update": (4, _insert_update),
    "move key": (4, _move_key),
    "move key and back": (2, _move_key_and_back),
    "swap keys": (4, _swap_keys),
    "shift keys": (2, _shift_keys),
    "respell key": (5, _respell_key),
    "update two tables": (2, _update_two),
    "delete from two tables": (1, _delete_two),
}
RARE: dict[str, tuple[int, Operation]] = {"delete all": (1, _delete_all)}
