"""Operations on rows, with those that Oracle alone has."""

from __future__ import annotations

from testing.workload import changes
from testing.workload.model import Operation, SchemaDraft
from testing.workload.oracle.schemas import quoted
from testing.workload.schemas import Statements, TableModel


def _merge(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Some rows change, some come."""
    if not table.plain or not table.key.columns:
        return None
    pen, first = draft.pen, int(draft.number(table))
    last = first + pen.randint(0, 12)
    draft.grown(table, max(0, last - table.top))
    columns = changes.filled(pen, table)
    cells = ", ".join(changes.bulk_cell(pen, table, column, "n") for column in columns)
    number = f"(SELECT LEVEL + {first - 1} AS n FROM dual CONNECT BY LEVEL <= {last - first + 1})"
    match = " AND ".join(
        f"a.{quoted(c.name)} = {table.numbered(c.number, 'n', c.kind)}" for c in table.columns if c.number
    )
    listed = table.names([column.name for column in columns])
    merged = f"MERGE INTO {table.sql} a USING {number} s ON ({match})"
    updated = f"WHEN MATCHED THEN UPDATE SET {changes.assignments(draft, table)}"
    return (f"{merged} {updated} WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({cells})",)


def _insert_select_self(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Equal rows again in a table without key."""
    if table.key.columns or table.top > changes.LARGE:
        return None
    listed = table.names([column.name for column in table.writable if not column.unique])
    count = draft.pen.randint(1, 40)
    draft.grown(table, count)
    return (f"INSERT INTO {table.sql} ({listed}) SELECT {listed} FROM {table.sql} WHERE ROWNUM <= {count}",)


def _update_limit(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    return (f"UPDATE {table.sql} SET {changes.assignments(draft, table)} WHERE ROWNUM <= {draft.pen.randint(1, 20)}",)


def _delete_limit(draft: SchemaDraft, table: TableModel) -> Statements:
    where = draft.pen.choice(("", f"({changes.one(draft, table)}) AND "))
    return (f"DELETE FROM {table.sql} WHERE {where}ROWNUM <= {draft.pen.randint(1, 9)}",)


def _by_rowid(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    chosen = f"SELECT ROWID FROM {table.sql} WHERE {changes.some(draft, table)}"
    return (f"UPDATE {table.sql} SET {changes.assignments(draft, table)} WHERE ROWID IN ({chosen})",)


def _empty_text(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """An empty string is NULL."""
    texts = [column for column in table.plain if column.kind.name in ("VARCHAR2", "NVARCHAR2") and column.nullable]
    if not texts:
        return None
    return (f"UPDATE {table.sql} SET {quoted(draft.pen.choice(texts).name)} = '' WHERE {changes.one(draft, table)}",)


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "insert one": (10, changes.insert_one),
    "insert many": (6, changes.insert_many),
    "insert large": (1, changes.insert_large),
    "insert select self": (4, _insert_select_self),
    "merge": (4, _merge),
    "update one": (12, changes.update_one),
    "update some": (4, changes.update_some),
    "update limit": (2, _update_limit),
    "update by rowid": (2, _by_rowid),
    "update all": (1, changes.update_all),
    "update nothing": (2, changes.update_nothing),
    "empty text": (2, _empty_text),
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
    "respell key": (5, changes.respell_key),
}
RARE: dict[str, tuple[int, Operation]] = {"delete all": (1, changes.delete_all)}
