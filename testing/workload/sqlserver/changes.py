"""Operations on rows, with those that T-SQL says its own way."""

from __future__ import annotations

from testing.workload import changes
from testing.workload.model import Operation, SchemaDraft, Whole
from testing.workload.schemas import Statements, TableModel


def _insert_select_self(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Equal rows again in a table without key."""
    if table.key.columns or table.top > changes.LARGE:
        return None
    listed = table.names([column.name for column in table.writable])
    count = draft.pen.randint(1, 40)
    draft.grown(table, count)
    return (f"INSERT INTO {table.sql} ({listed}) SELECT TOP ({count}) {listed} FROM {table.sql}",)


def _update_top(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE TOP ({draft.pen.randint(1, 20)}) {table.sql} SET {changes.assignments(draft, table)}",)


def _delete_top(draft: SchemaDraft, table: TableModel) -> Statements:
    where = draft.pen.choice(("", f" WHERE {changes.one(draft, table)}"))
    return (f"DELETE TOP ({draft.pen.randint(1, 9)}) FROM {table.sql}{where}",)


def _update_from(draft: SchemaDraft, table: TableModel) -> Statements | None:
    other = changes.other(draft, table)
    if other is None or not table.plain:
        return None
    where = f"{_aliased('a', table, draft)} AND {_aliased('b', other, draft)}"
    both = f"{table.sql} AS a CROSS JOIN {other.sql} AS b"
    return (f"UPDATE a SET {changes.assignments(draft, table)} FROM {both} WHERE {where}",)


def _delete_from(draft: SchemaDraft, table: TableModel) -> Statements | None:
    other = changes.other(draft, table)
    if other is None:
        return None
    where = f"{_aliased('a', table, draft)} AND {_aliased('b', other, draft)}"
    return (f"DELETE a FROM {table.sql} AS a CROSS JOIN {other.sql} AS b WHERE {where}",)


def _aliased(alias: str, table: TableModel, draft: SchemaDraft) -> str:
    condition = changes.aliased(alias, table, draft)
    cells = [
        f"{alias}.{table.quoted(c.name)} = {table.numbered(c.number, draft.number(table), c.kind)}"
        for c in table.columns
        if c.number
    ]
    return condition if cells else "1 = 1"


def _shift_keys(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Every key takes its neighbour's, by way of negatives."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not ranged or not table.key.columns or table.top > 2 * changes.LARGE:
        return None
    name, first = table.quoted(ranged[0].name), int(draft.number(table))
    between = f"BETWEEN {first} AND {first + draft.pen.randint(1, 15)}"
    return Whole((
        f"UPDATE {table.sql} SET {name} = -{name} - 1 WHERE {name} {between}",
        f"UPDATE {table.sql} SET {name} = -{name} WHERE {name} < 0",
    ))  # fmt: skip


def _upsert(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """As applications say it: UPDATE, and INSERT where there was nothing."""
    if not table.plain or not table.key.columns:
        return None
    update = f"UPDATE {table.sql} SET {changes.assignments(draft, table)} WHERE {changes.one(draft, table)}"
    return (f"{update}; IF @@ROWCOUNT = 0 {changes.inserted(draft, table, 1)}",)


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "insert one": (10, changes.insert_one),
    "insert many": (6, changes.insert_many),
    "insert large": (1, changes.insert_large),
    "insert select self": (4, _insert_select_self),
    "upsert": (4, _upsert),
    "update one": (12, changes.update_one),
    "update some": (4, changes.update_some),
    "update top": (2, _update_top),
    "update all": (1, changes.update_all),
    "update nothing": (2, changes.update_nothing),
    "toggle null": (2, changes.toggle_null),
    "hot row": (3, changes.hot_row),
    "delete one": (6, changes.delete_one),
    "delete some": (2, changes.delete_some),
    "delete top": (2, _delete_top),
    "delete and insert": (5, changes.delete_insert),
    "insert and delete": (3, changes.insert_delete),
    "insert and update": (4, changes.insert_update),
    "move key": (4, changes.move_key),
    "move key and back": (2, changes.move_key_and_back),
    "swap keys": (4, changes.swap_keys),
    "shift keys": (3, _shift_keys),
    "respell key": (5, changes.respell_key),
    "update from": (2, _update_from),
    "delete from": (1, _delete_from),
}
RARE: dict[str, tuple[int, Operation]] = {"delete all": (1, changes.delete_all)}
