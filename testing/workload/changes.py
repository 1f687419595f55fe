"""Operations on rows, in the shapes that SQL has everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from testing.workload.model import SchemaDraft
from testing.workload.rng_literals import Pen
from testing.workload.schemas import ColumnModel, Statements, TableModel

LARGE = 3000


def value(pen: Pen, column: ColumnModel, *, repeated: bool = False) -> str:
    """A literal for the column; `repeated`: of many rows."""
    if column.unique:
        return pen.choice(("NULL", str(pen.randint(1, 2000))))
    if column.nullable and pen.chance(0.15):
        return "NULL"
    if column.default and pen.chance(0.05):
        return "DEFAULT"
    return column.kind.repeated(pen) if repeated else column.kind.value(pen)


def row(pen: Pen, table: TableModel, columns: Sequence[ColumnModel], number: int) -> str:
    """One row of VALUES."""
    return f"({', '.join(_cell(pen, table, column, number) for column in columns)})"


def _cell(pen: Pen, table: TableModel, column: ColumnModel, number: int) -> str:
    if column.number:
        return table.numbered(column.number, str(number), column.kind)
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


def inserted(
    draft: SchemaDraft, table: TableModel, count: int, verb: str = "INSERT INTO", *, again: bool = False
) -> str:
    """Rows by VALUES; `again`: numbers that are probably taken."""
    columns = filled(draft.pen, table)
    first = int(draft.number(table)) if again else draft.grown(table, count) + 1
    rows = [row(draft.pen, table, columns, first + at) for at in range(count)]
    return table.insertion(verb, table.names([column.name for column in columns]), rows)


def bulk_cell(pen: Pen, table: TableModel, column: ColumnModel, number: str) -> str:
    """A value for one of many rows, whose number is `n`."""
    if column.number:
        return table.numbered(column.number, number, column.kind)
    if column.unique:
        return "NULL"
    if not column.kind.has_cases:
        return column.kind.value(pen)
    values = [column.kind.repeated(pen) for _ in range(3)]
    if column.nullable:
        values[2] = "NULL"
    return f"CASE {table.remainder('n', 3)} WHEN 0 THEN {values[0]} WHEN 1 THEN {values[1]} ELSE {values[2]} END"


def bulk(draft: SchemaDraft, table: TableModel, count: int) -> str:
    """Many rows by INSERT … SELECT."""
    columns = filled(draft.pen, table)
    top = draft.grown(table, count)
    cells = ", ".join(bulk_cell(draft.pen, table, column, f"(n + {top + 1})") for column in columns)
    listed = table.names([column.name for column in columns])
    return f"INSERT INTO {table.sql} ({listed}) SELECT {cells} FROM {draft.maker.numbers(count)}"


def insert_one(draft: SchemaDraft, table: TableModel) -> Statements:
    return (inserted(draft, table, 1),)


def insert_many(draft: SchemaDraft, table: TableModel) -> Statements:
    return (inserted(draft, table, draft.pen.randint(2, 30)),)


def insert_large(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if table.top > 2 * LARGE:
        return None
    return (bulk(draft, table, draft.pen.choice((200, 700, LARGE))),)


def insert_select_self(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Equal rows again in a table without key; with an auto-increment key, all but the key."""
    keys = [column for column in table.columns if column.name in table.key.columns]
    if not all(column.automatic for column in keys) or table.top > LARGE:
        return None
    listed = table.names([column.name for column in table.writable if column.name not in table.key.columns])
    count = draft.pen.randint(1, 40)
    draft.grown(table, count)
    return (f"INSERT INTO {table.sql} ({listed}) SELECT {listed} FROM {table.sql} LIMIT {count}",)


def assignments(draft: SchemaDraft, table: TableModel, *, repeated: bool = False) -> str:
    """One to three columns get new values, `repeated` in many rows; the table must have plain ones."""
    pen = draft.pen
    chosen = pen.sample(table.plain, min(len(table.plain), pen.randint(1, 3)))
    return ", ".join(f"{table.quoted(column.name)} = {value(pen, column, repeated=repeated)}" for column in chosen)


def one(draft: SchemaDraft, table: TableModel) -> str:
    """A condition for one row (in a table without key: for some equal ones)."""
    return table.found(draft.number(table))


def some(draft: SchemaDraft, table: TableModel) -> str:
    """A condition for several rows, none, or all."""
    pen = draft.pen
    first = int(draft.number(table))
    shape = pen.choice(("or", "hash", "null", "between", "not null", "hash"))
    simple = [column for column in table.columns if column.kind.is_simple]
    nullable = [column for column in simple if column.nullable and not column.number]
    if shape == "between":
        ranged = [column for column in table.columns if column.number == "plain"]
        if ranged:
            return f"{table.quoted(ranged[0].name)} BETWEEN {first} AND {first + pen.randint(0, 60)}"
    if shape in ("null", "not null") and nullable:
        return f"{table.quoted(pen.choice(nullable).name)} IS {shape.upper()}"
    if shape == "hash" and simple:
        digest = table.digest(table.quoted(pen.choice(simple).name))
        return f"{table.remainder(digest, 7)} = {pen.randrange(7)}"
    return " OR ".join(f"({table.found(str(first + at))})" for at in range(pen.randint(1, 8)))


def update_one(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {one(draft, table)}",)


def update_some(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE {table.sql} SET {assignments(draft, table, repeated=True)} WHERE {some(draft, table)}",)


def update_all(draft: SchemaDraft, table: TableModel) -> Statements | None:
    return (f"UPDATE {table.sql} SET {assignments(draft, table, repeated=True)}",) if table.plain else None


def update_nothing(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """To the values that are there: no event, or one whose images are equal."""
    if not table.plain:
        return None
    column = table.quoted(draft.pen.choice(table.plain).name)
    return (f"UPDATE {table.sql} SET {column} = {column} WHERE {some(draft, table)}",)


def toggle_null(draft: SchemaDraft, table: TableModel) -> Statements | None:
    nullable = [column for column in table.plain if column.nullable and column.kind.is_simple]
    if not nullable:
        return None
    column = draft.pen.choice(nullable)
    name = table.quoted(column.name)
    new = f"CASE WHEN {name} IS NULL THEN {column.kind.value(draft.pen)} END"
    return (f"UPDATE {table.sql} SET {name} = {new} WHERE {some(draft, table)}",)


def hot_row(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """One row many times, so that only the last value counts."""
    if not table.plain:
        return None
    where = one(draft, table)
    count = draft.pen.randint(3, 12)
    return tuple(f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {where}" for _ in range(count))


def delete_one(draft: SchemaDraft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql} WHERE {one(draft, table)}",)


def delete_some(draft: SchemaDraft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql} WHERE {some(draft, table)}",)


def delete_all(_draft: SchemaDraft, table: TableModel) -> Statements:
    return (f"DELETE FROM {table.sql}",)


def delete_insert(draft: SchemaDraft, table: TableModel) -> Statements:
    """One key goes and comes back."""
    number = int(draft.number(table))
    columns = filled(draft.pen, table)
    listed = table.names([column.name for column in columns])
    again = f"INSERT INTO {table.sql} ({listed}) VALUES {row(draft.pen, table, columns, number)}"
    return (f"DELETE FROM {table.sql} WHERE {table.found(str(number))}", again)


def insert_delete(draft: SchemaDraft, table: TableModel) -> Statements:
    """A row that comes and goes."""
    statement = inserted(draft, table, 1)
    return (statement, f"DELETE FROM {table.sql} WHERE {table.found(str(draft.tables[table.name].top))}")


def insert_update(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A row that is changed at once."""
    if not table.plain:
        return None
    statement = inserted(draft, table, 1)
    where = table.found(str(draft.tables[table.name].top))
    return (statement, f"UPDATE {table.sql} SET {assignments(draft, table)} WHERE {where}")


def moved(table: TableModel, old: str, new: str) -> str:
    """UPDATE of a row's key."""
    cells = [f"{table.quoted(c.name)} = {table.numbered(c.number, new, c.kind)}" for c in table.columns if c.number]
    return f"UPDATE {table.sql} SET {', '.join(cells)} WHERE {table.found(old)}"


def move_key(draft: SchemaDraft, table: TableModel) -> Statements:
    new = draft.grown(table, 1) + 1
    return (moved(table, draft.number(table), str(new)),)


def move_key_and_back(draft: SchemaDraft, table: TableModel) -> Statements:
    new, old = str(draft.grown(table, 1) + 1), draft.number(table)
    return (moved(table, old, new), moved(table, new, old))


def swap_keys(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two rows change places through a third number."""
    first, second = draft.number(table), draft.number(table)
    if first == second:
        return None
    aside = str(draft.grown(table, 1) + 1)
    return (moved(table, first, aside), moved(table, second, first), moved(table, aside, second))


def respell_key(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same key under the collation, in other letters."""
    texts = [column for column in table.columns if column.number == "text"]
    if not texts:
        return None
    name = table.quoted(texts[0].name)
    how = draft.pen.choice((f"UPPER({name})", f"LOWER({name})", f"CONCAT({name}, ' ')"))
    return (f"UPDATE {table.sql} SET {name} = {how} WHERE {some(draft, table)}",)


def other(draft: SchemaDraft, table: TableModel) -> TableModel | None:
    """Another table that may be changed, if there is one."""
    others = [one for one in draft.tables.values() if one.name != table.name and not one.refused]
    return draft.pen.choice(others) if others else None


def aliased(alias: str, table: TableModel, draft: SchemaDraft) -> str:
    """A condition for one row of the table under an alias."""
    number = draft.number(table)
    cells = [
        f"{alias}.{table.quoted(c.name)} = {table.numbered(c.number, number, c.kind)}"
        for c in table.columns
        if c.number
    ]
    return " AND ".join(cells) or "TRUE"
