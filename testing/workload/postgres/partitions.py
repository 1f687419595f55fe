"""Operations on a table's partitions: to a replicator it is one table, in any partitions."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.changes import inserted, some
from testing.workload.model import Operation, SchemaDraft, Whole
from testing.workload.postgres.schemas import TableModel as PostgresTable
from testing.workload.postgres.values.rng_literals import quoted
from testing.workload.schemas import Statements, TableModel

MIN_PARTITIONS = 1


def _add(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """One more range, cut off the default partition where that holds none of its rows."""
    if not isinstance(table, PostgresTable) or not table.bounds:
        return None
    bound, part = table.bounds[-1] * 2, draft.maker.name("part", odd=0.2)
    parts = (*table.parts[:-1], part, table.parts[-1])
    new = replace(table, bounds=(*table.bounds, bound), parts=parts)
    draft.keep(new)
    return _made(table, part, table.bounds[-1], bound)


def _made(table: PostgresTable, part: str, low: int | str, high: int) -> Statements:
    made = f"CREATE TABLE {quoted(part)} PARTITION OF {table.sql} FOR VALUES FROM ({low}) TO ({high})"
    identity = f"ALTER TABLE {quoted(part)} REPLICA IDENTITY FULL"
    return Whole((made, identity)) if table.identity == "full" else (made,)


def _build(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """One more range, made as a table that takes some rows over, and attached; at once, or not."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not isinstance(table, PostgresTable) or not table.bounds or not ranged:
        return None
    pen, low = draft.pen, table.bounds[-1]
    part, first, key = draft.maker.name("part", odd=0.2), int(draft.number(table)), quoted(ranged[0].name)
    parts = (*table.parts[:-1], part, table.parts[-1])
    draft.keep(replace(table, bounds=(*table.bounds, low * 2), parts=parts))
    names = [quoted(column.name) for column in table.columns if column.writable]
    values = [f"{key} + {low}" if name == key else name for name in names]
    taken = (
        f"DELETE FROM {table.sql} WHERE {key} BETWEEN {first} AND {first + pen.choice((-1, 10))} AND {key} < {low}"
        " RETURNING *"
    )
    statements = (
        f"CREATE TABLE {quoted(part)} (LIKE {table.sql} INCLUDING ALL)",
        *((f"ALTER TABLE {quoted(part)} REPLICA IDENTITY FULL",) if table.identity == "full" else ()),
        f"WITH gone AS ({taken}) INSERT INTO {quoted(part)} ({', '.join(names)}) SELECT {', '.join(values)} FROM gone",
        f"ALTER TABLE {table.sql} ATTACH PARTITION {quoted(part)} FOR VALUES FROM ({low}) TO ({low * 2})",
        (
            f"UPDATE {table.sql} SET {key} = {key} + {low} WHERE {key} BETWEEN {first} + 20 AND {first} + 25 AND {key}"
            f" < {low}"
        ),
    )
    return Whole(statements) if pen.chance(0.6) else statements


def _remake(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Dropped and made again under its name, and filled."""
    if not isinstance(table, PostgresTable) or not table.bounds:
        return None
    part = table.parts[0]
    made = _made(table, part, "MINVALUE", table.bounds[0])
    statements = (f"DROP TABLE {quoted(part)}", *made, inserted(draft, table, draft.pen.randint(1, 20)))
    return Whole(statements) if table.identity == "full" or draft.pen.chance(0.3) else statements


def _for_a_moment(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A partition that is created, filled and dropped (or truncated, then dropped) before the catalog is read again."""
    ranged = [column for column in table.columns if column.number == "plain"]
    if not isinstance(table, PostgresTable) or not table.bounds or not ranged:
        return None
    low, part, first = table.bounds[-1], draft.maker.name("part", odd=0.2), int(draft.number(table))
    name = quoted(ranged[0].name)
    filled = (
        f"UPDATE {table.sql} SET {name} = {name} + {low} WHERE {name} BETWEEN {first} AND {first + 10} AND {name} <"
        f" {low}"
    )
    made = _made(table, part, low, low * 2)
    gone = draft.pen.choice((f"DROP TABLE {quoted(part)}", f"TRUNCATE {quoted(part)}"))
    if gone.startswith("TRUNCATE"):  # or its range would stay taken
        return (*made, filled, gone, f"DROP TABLE {quoted(part)}")
    return (*made, filled, gone)


def _drop(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Rows go without a trace in the log."""
    if not isinstance(table, PostgresTable) or len(table.bounds) <= MIN_PARTITIONS:
        return None
    gone = table.parts[0]
    draft.keep(replace(table, bounds=table.bounds[1:], parts=table.parts[1:]))
    return (f"DROP TABLE {quoted(gone)}",)


def _truncate(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not isinstance(table, PostgresTable) or not table.parts:
        return None
    return (f"TRUNCATE {quoted(draft.pen.choice(table.parts))}",)


def _reattach(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A partition is another table for a moment, and comes back; in one transaction or with its rows gone in
    between.
    """
    if not isinstance(table, PostgresTable) or not table.bounds:
        return None
    part = quoted(table.parts[0])
    back = f"ALTER TABLE {table.sql} ATTACH PARTITION {part} FOR VALUES FROM (MINVALUE) TO ({table.bounds[0]})"
    detached = f"ALTER TABLE {table.sql} DETACH PARTITION {part}"
    if draft.pen.chance(0.3):
        fewer = f"DELETE FROM {part} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {part} LIMIT {draft.pen.randint(1, 5)}))"
        return (detached, fewer, back)
    return Whole((detached, back)) if draft.pen.chance(0.7) else (detached, back)


def _move_rows(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """From one partition to another: to the server a DELETE and an INSERT."""
    if not isinstance(table, PostgresTable) or not table.parts:
        return None
    few = [column for column in table.columns if column.number == "few"]
    if few and not table.key.columns:
        name = quoted(few[0].name)
        return (f"UPDATE {table.sql} SET {name} = ({name} + 3) % 9 WHERE {some(draft, table)}",)
    ranged = [column for column in table.columns if column.number == "plain"]
    if not ranged:
        return None
    name, first = quoted(ranged[0].name), int(draft.number(table))
    there = f"{name} BETWEEN {first} AND {first + draft.pen.randint(0, 20)}"
    return Whole(
        (
            f"UPDATE {table.sql} SET {name} = {name} + 500000 WHERE {there}",
            f"UPDATE {table.sql} SET {name} = {name} - 500000 WHERE {name} >= 500000",
        )
    )


def _by_leaf(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A change by the partition's own name."""
    if not isinstance(table, PostgresTable) or not table.parts:
        return None
    leaf = quoted(draft.pen.choice(table.parts))
    return (f"DELETE FROM {leaf} WHERE ctid = ANY (ARRAY(SELECT ctid FROM {leaf} LIMIT {draft.pen.randint(1, 5)}))",)


def _rename_part(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if not isinstance(table, PostgresTable) or not table.parts:
        return None
    old, new = draft.pen.choice(table.parts), draft.maker.name("part", odd=0.4)
    draft.keep(replace(table, parts=tuple(new if part == old else part for part in table.parts)))
    return (f"ALTER TABLE {quoted(old)} RENAME TO {quoted(new)}",)


# Of these the log shows nothing.
SILENT: dict[str, tuple[int, Operation]] = {
    "drop partition": (5, _drop),
    "truncate partition": (2, _truncate),
    "reattach partition": (6, _reattach),
    "remake partition": (4, _remake),
    "build partition": (6, _build),
    "partition for a moment": (5, _for_a_moment),
}
PARTITIONS: dict[str, tuple[int, Operation]] = {
    "add partition": (5, _add),
    "move rows between partitions": (6, _move_rows),
    "change by partition": (3, _by_leaf),
    "rename partition": (2, _rename_part),
    **SILENT,
}
