"""Operations on rows, with those that Postgres alone has."""

from __future__ import annotations

from testing.workload import changes
from testing.workload.model import Operation, SchemaDraft, Whole
from testing.workload.postgres.keys import numbered
from testing.workload.postgres.schemas import SchemaMaker
from testing.workload.postgres.schemas import TableModel as PostgresTable
from testing.workload.postgres.values.rng_literals import names, quoted
from testing.workload.schemas import Statements, TableModel

MERGES = 15


def _conflicts(table: TableModel) -> bool:
    """ON CONFLICT has something to go by."""
    return isinstance(table, PostgresTable) and bool(table.key.columns) and not table.deferrable


def _insert_returning(draft: SchemaDraft, table: TableModel) -> Statements:
    name = quoted(table.columns[0].name)
    return (
        f"{changes.inserted(draft, table, 2)} RETURNING {name}::text IS NULL",
        f"DELETE FROM {table.sql} WHERE {changes.one(draft, table)} RETURNING 1",
    )


def _insert_ignore(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not _conflicts(table):
        return None
    return (f"{changes.inserted(draft, table, draft.pen.randint(1, 6), again=True)} ON CONFLICT DO NOTHING",)


def _upsert(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not _conflicts(table) or not table.plain:
        return None
    statement = changes.inserted(draft, table, draft.pen.randint(1, 6), again=draft.pen.chance(0.7))
    column = quoted(draft.pen.choice(table.plain).name)
    sets = draft.pen.choice((f"{column} = EXCLUDED.{column}", changes.assignments(draft, table)))
    return (f"{statement} ON CONFLICT ({names(table.key.columns)}) DO UPDATE SET {sets}",)


def _merge(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """MERGE: some rows go, some change, some come."""
    if (
        not isinstance(draft.maker, SchemaMaker)
        or draft.maker.version < MERGES
        or not table.plain
        or not table.key.columns
    ):
        return None
    pen, first = draft.pen, int(draft.number(table))
    last = first + pen.randint(0, 12)
    draft.grown(table, max(0, last - table.top))
    columns = changes.filled(pen, table)
    cells = ", ".join(changes.bulk_cell(pen, table, column, "n") for column in columns)
    match = " AND ".join(f"a.{quoted(c.name)} = {numbered(c.number, 'n', c.kind)}" for c in table.columns if c.number)
    what = f"MERGE INTO {table.sql} AS a USING (SELECT generate_series({first}, {last}) AS n) AS s ON {match}"
    matched = f"WHEN MATCHED AND n % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET {changes.assignments(draft, table)}"
    listed = names([column.name for column in columns])
    return (f"{what} {matched} WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({cells})",)


def _update_limit(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not table.plain:
        return None
    chosen = f"SELECT ctid FROM {table.sql} ORDER BY ctid LIMIT {draft.pen.randint(1, 20)}"
    return (f"UPDATE {table.sql} SET {changes.assignments(draft, table)} WHERE ctid = ANY (ARRAY({chosen}))",)


def _delete_limit(draft: SchemaDraft, table: TableModel) -> Statements:
    where = draft.pen.choice(("", f" WHERE {changes.one(draft, table)}"))
    chosen = f"SELECT ctid FROM {table.sql}{where} LIMIT {draft.pen.randint(1, 9)}"
    return (f"DELETE FROM {table.sql} WHERE ctid = ANY (ARRAY({chosen}))",)


def _shift_keys(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Every key takes its neighbour's: for a moment two rows have the same, where the key is checked late; else by way
    of negatives.
    """
    ranged = [column for column in table.columns if column.number == "plain"]
    if not isinstance(table, PostgresTable) or not ranged or not table.key.columns or table.top > 2 * changes.LARGE:
        return None
    name = quoted(ranged[0].name)
    if table.deferrable:
        draft.used["shift deferred keys"] += 1
        first = int(draft.number(table))
        where = draft.pen.choice(("", f" WHERE {name} BETWEEN {first} AND {first + draft.pen.randint(2, 30)}"))
        return (f"UPDATE {table.sql} SET {name} = {name} {draft.pen.choice('+-')} 1{where}",)
    first = int(draft.number(table))
    between = f"BETWEEN {first} AND {first + draft.pen.randint(1, 15)}"
    return Whole(
        (
            f"UPDATE {table.sql} SET {name} = -{name} - 1 WHERE {name} {between}",
            f"UPDATE {table.sql} SET {name} = -{name} WHERE {name} < 0",
        )
    )


def _swap_deferred(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two rows change keys in one statement, which only a key that is checked late allows."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not isinstance(table, PostgresTable) or not table.deferrable or not ranged:
        return None
    name, first = quoted(ranged[0].name), int(draft.number(table))
    return (f"UPDATE {table.sql} SET {name} = {2 * first + 1} - {name} WHERE {name} IN ({first}, {first + 1})",)


def _respell_number(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The same key to the server, in other digits."""
    numbers = [column for column in table.columns if column.number == "scaled"]
    if not numbers:
        return None
    name = quoted(numbers[0].name)
    return (
        (
            f"UPDATE {table.sql} SET {name} = {name} * 1.{'0' * draft.pen.randint(1, 3)} WHERE"
            f" {changes.some(draft, table)}"
        ),
    )


def _update_from(draft: SchemaDraft, table: TableModel) -> Statements | None:
    other = changes.other(draft, table)
    if other is None or not table.plain:
        return None
    where = f"{changes.aliased('a', table, draft)} AND {changes.aliased('b', other, draft)}"
    return (f"UPDATE {table.sql} AS a SET {changes.assignments(draft, table)} FROM {other.sql} AS b WHERE {where}",)


def _change_two(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """One statement for two tables."""
    other = changes.other(draft, table)
    if other is None or not table.plain or not other.plain:
        return None
    first = f"UPDATE {table.sql} SET {changes.assignments(draft, table)} WHERE {changes.one(draft, table)} RETURNING 1"
    second = draft.pen.choice(
        (
            f"UPDATE {other.sql} SET {changes.assignments(draft, other)} WHERE {changes.one(draft, other)}",
            f"DELETE FROM {other.sql} WHERE {changes.one(draft, other)}",
            changes.inserted(draft, other, 1),
        )
    )
    return (f"WITH one AS ({first}) {second}",)


def _delete_using(draft: SchemaDraft, table: TableModel) -> Statements | None:
    other = changes.other(draft, table)
    if other is None:
        return None
    where = f"{changes.aliased('a', table, draft)} AND {changes.aliased('b', other, draft)}"
    return (f"DELETE FROM {table.sql} AS a USING {other.sql} AS b WHERE {where}",)


def _update_beside_large(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Values out of line stay as they are, and the log does not show them; now and then the key changes beside them."""
    large = [
        column for column in table.columns if isinstance(table, PostgresTable) and column.kind.label.startswith("large")
    ]
    others = [column for column in table.plain if column not in large]
    if not large or not others:
        return None
    column = draft.pen.choice(others)
    where = changes.some(draft, table) if draft.pen.chance(0.4) else changes.one(draft, table)
    statement = f"UPDATE {table.sql} SET {quoted(column.name)} = {changes.value(draft.pen, column)} WHERE {where}"
    if draft.pen.chance(0.5):
        return (statement,)
    return (statement, *(changes.move_key(draft, table) or ()))


def _nothing_large(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A value out of line is written again as it was, or changed at its end."""
    large = [
        column
        for column in table.plain
        if column.kind.name in ("text", "varchar") and column.kind.label.startswith("large")
    ]
    if not large:
        return None
    name = quoted(draft.pen.choice(large).name)
    how = draft.pen.choice((f"{name} || ''", f"{name} || 'x'", f"left({name}, 10)", f"reverse({name})"))
    return (f"UPDATE {table.sql} SET {name} = {how} WHERE {changes.some(draft, table)}",)


OPERATIONS: dict[str, tuple[int, Operation]] = {
    "insert one": (10, changes.insert_one),
    "insert many": (6, changes.insert_many),
    "insert large": (1, changes.insert_large),
    "insert returning": (1, _insert_returning),
    "insert select self": (4, changes.insert_select_self),
    "insert ignore": (3, _insert_ignore),
    "upsert": (5, _upsert),
    "merge": (4, _merge),
    "update one": (12, changes.update_one),
    "update some": (4, changes.update_some),
    "update limit": (2, _update_limit),
    "update all": (1, changes.update_all),
    "update nothing": (2, changes.update_nothing),
    "update beside large": (5, _update_beside_large),
    "update large": (2, _nothing_large),
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
    "swap deferred keys": (3, _swap_deferred),
    "shift keys": (3, _shift_keys),
    "respell key": (5, changes.respell_key),
    "respell number": (3, _respell_number),
    "update from": (2, _update_from),
    "change two tables": (2, _change_two),
    "delete using": (1, _delete_using),
}
RARE: dict[str, tuple[int, Operation]] = {"delete all": (1, changes.delete_all)}
