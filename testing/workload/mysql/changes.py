"""Operations on rows, with those that MySQL and MariaDB alone have."""

from __future__ import annotations

from testing.workload import changes
from testing.workload.model import Operation, SchemaDraft
from testing.workload.mysql.keys import numbered
from testing.workload.mysql.rng_literals import quoted
from testing.workload.schemas import Statements, TableModel


def _insert_returning(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if draft.dialect != "mariadb":
        return None
    name = quoted(table.columns[0].name)
    return (
        f"{changes.inserted(draft, table, 2)} RETURNING {name}",
        f"DELETE FROM {table.sql} WHERE {changes.one(draft, table)} RETURNING 1",
    )


def _insert_set(draft: SchemaDraft, table: TableModel) -> Statements:
    number = str(draft.grown(table, 1) + 1)
    cells = [
        f"{quoted(c.name)} = {numbered(c.number, number, c.kind) if c.number else changes.value(draft.pen, c)}"
        for c in changes.filled(draft.pen, table)
    ]
    return (f"INSERT INTO {table.sql} SET {', '.join(cells)}",)


def _insert_ignore(draft: SchemaDraft, table: TableModel) -> Statements:
    return (changes.inserted(draft, table, draft.pen.randint(1, 6), "INSERT IGNORE INTO", again=True),)


def _replace(draft: SchemaDraft, table: TableModel) -> Statements:
    return (changes.inserted(draft, table, draft.pen.randint(1, 6), "REPLACE INTO", again=True),)


def _upsert(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    statement = changes.inserted(draft, table, draft.pen.randint(1, 6), again=draft.pen.chance(0.7))
    column = quoted(draft.pen.choice(table.plain).name)
    other = changes.assignments(draft, table)
    return (f"{statement} ON DUPLICATE KEY UPDATE {draft.pen.choice((f'{column} = VALUES({column})', other))}",)


def _crashes_in_order(draft: SchemaDraft, table: TableModel) -> bool:
    """MariaDB 11.4.5 itself crashes now and then (ha_partition::position) in UPDATE … ORDER BY of such a table."""
    return draft.dialect == "mariadb" and bool(table.partitions)


def _update_limit(draft: SchemaDraft, table: TableModel) -> Statements | None:
    simple = [column for column in table.columns if column.kind.is_simple]
    if not table.plain or not simple or _crashes_in_order(draft, table):
        return None
    order = f"{quoted(draft.pen.choice(simple).name)}{draft.pen.choice((' DESC', ''))}"
    return (
        f"UPDATE {table.sql} SET {changes.assignments(draft, table)} ORDER BY {order} LIMIT {draft.pen.randint(1, 20)}",
    )


def _delete_limit(draft: SchemaDraft, table: TableModel) -> Statements:
    where = draft.pen.choice(("", f" WHERE {changes.one(draft, table)}"))
    return (f"DELETE FROM {table.sql}{where} LIMIT {draft.pen.randint(1, 9)}",)


def _shift_keys(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Every key takes its neighbour's."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not ranged or not table.key.columns or _crashes_in_order(draft, table):
        return None
    name = quoted(ranged[0].name)
    return (f"UPDATE {table.sql} SET {name} = {name} + 1 ORDER BY {name} DESC LIMIT {draft.pen.randint(2, 30)}",)


def _update_two(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """One statement for two tables."""
    other = changes.other(draft, table)
    if other is None or not table.plain or not other.plain:
        return None
    pen = draft.pen
    first, second = pen.choice(table.plain), pen.choice(other.plain)
    sets = (
        f"a.{quoted(first.name)} = {changes.value(pen, first)}, b.{quoted(second.name)} = {changes.value(pen, second)}"
    )
    where = f"{changes.aliased('a', table, draft)} AND {changes.aliased('b', other, draft)}"
    return (f"UPDATE {table.sql} a, {other.sql} b SET {sets} WHERE {where}",)


def _delete_two(draft: SchemaDraft, table: TableModel) -> Statements | None:
    other = changes.other(draft, table)
    if other is None:
        return None
    where = f"{changes.aliased('a', table, draft)} AND {changes.aliased('b', other, draft)}"
    return (f"DELETE a, b FROM {table.sql} a, {other.sql} b WHERE {where}",)


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "insert one": (10, changes.insert_one),
    "insert many": (6, changes.insert_many),
    "insert large": (1, changes.insert_large),
    "insert set": (2, _insert_set),
    "insert returning": (1, _insert_returning),
    "insert select self": (4, changes.insert_select_self),
    "insert ignore": (3, _insert_ignore),
    "replace": (4, _replace),
    "upsert": (4, _upsert),
    "update one": (12, changes.update_one),
    "update some": (4, changes.update_some),
    "update limit": (2, _update_limit),
    "update all": (1, changes.update_all),
    "update nothing": (2, changes.update_nothing),
    "toggle null": (2, changes.toggle_null),
    "hot row": (3, changes.hot_row),
    "delete one": (6, changes.delete_one),
    "delete some": (2, changes.delete_some),
    "delete limit": (2, _delete_limit),
    "delete and insert": (5, changes.delete_insert),
    "insert and delete": (3, changes.insert_delete),
    "insert and update": (4, changes.insert_update),
    "move key": (4, changes.move_key),
    "move key and back": (2, changes.move_key_and_back),
    "swap keys": (4, changes.swap_keys),
    "shift keys": (2, _shift_keys),
    "respell key": (5, changes.respell_key),
    "update two tables": (2, _update_two),
    "delete from two tables": (1, _delete_two),
}
RARE: dict[str, tuple[int, Operation]] = {"delete all": (1, changes.delete_all)}
