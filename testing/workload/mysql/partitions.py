"""Operations on a table's partitions."""

from __future__ import annotations

from dataclasses import replace

from testing.workload.model import Operation, SchemaDraft
from testing.workload.mysql.schemas import SchemaMaker
from testing.workload.mysql.schemas import TableModel as MySQLTable
from testing.workload.schemas import Statements, TableModel
from testing.workload.tables import MAX_TABLES

MIN_PARTITIONS = 2


def _partition(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """What partitions can do; of these, DROP and TRUNCATE take rows away without a trace in the log."""
    pen, bounds = draft.pen, table.bounds
    if not bounds or _lost(table):
        return None
    match pen.choice(("add", "drop", "truncate", "rebuild")):
        case "add":
            bound = bounds[-1] * 2
            draft.keep(replace(table, bounds=(*bounds, bound)))
            return (f"ALTER TABLE {table.sql} ADD PARTITION (PARTITION p{bound} VALUES LESS THAN ({bound}))",)
        case "drop" if len(bounds) > MIN_PARTITIONS:
            draft.keep(replace(table, bounds=bounds[1:]))
            return (f"ALTER TABLE {table.sql} DROP PARTITION p{bounds[0]}",)
        case "rebuild":
            return (f"ALTER TABLE {table.sql} REBUILD PARTITION p{pen.choice(bounds)}",)
        case _:
            return (f"ALTER TABLE {table.sql} TRUNCATE PARTITION p{pen.choice(bounds)}",)


def _repartition(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Partitions by the key's hash come, go and change in number."""
    if not isinstance(table, MySQLTable) or table.bounds or table.constraints or not table.key.columns:
        return None
    if not table.partitions:
        assert isinstance(draft.maker, SchemaMaker)
        by = draft.maker.partitioned(replace(table, partitions=""), ranged=False)
        if not by.partitions:
            return None
        draft.keep(by)
        return (f"ALTER TABLE {table.sql}{by.partitions}",)
    changed = () if _lost(table) else ("ADD PARTITION PARTITIONS 1", "COALESCE PARTITION 1")
    what = draft.pen.choice((*changed, "REMOVE PARTITIONING"))
    if what.startswith("REMOVE"):
        draft.keep(replace(table, partitions=""))
    return (f"ALTER TABLE {table.sql} {what}",)


def _exchange(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A partition's rows and a table's change places, without a row in the log."""
    if not table.bounds or _lost(table) or len(draft.tables) > MAX_TABLES:
        return None
    other = replace(table, name=draft.maker.name("t"), bounds=(), partitions="", top=table.top)
    draft.keep(other)
    bound = draft.pen.choice(table.bounds)
    exchanged = f"EXCHANGE PARTITION p{bound} WITH TABLE {other.sql}"
    made = (
        f"CREATE TABLE {other.sql} LIKE {table.sql}", f"ALTER TABLE {other.sql} REMOVE PARTITIONING",
        f"ALTER TABLE {table.sql} {exchanged}",
    )  # fmt: skip
    if draft.pen.chance(0.6):
        return made
    filled = replace(table, name=draft.maker.name("t"))  # which has no rows but these
    draft.keep(filled)
    return (*made, f"CREATE TABLE {filled.sql} LIKE {table.sql}", f"ALTER TABLE {filled.sql} {exchanged}")


def _converted(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """MariaDB: the last partition becomes a table, and a partition again, without a row in the log."""
    if (
        draft.dialect != "mariadb"
        or len(table.bounds) < MIN_PARTITIONS
        or _lost(table)
        or len(draft.tables) > MAX_TABLES
    ):
        return None
    bound, other = table.bounds[-1], replace(table, name=draft.maker.name("t"), bounds=(), partitions="")
    out = f"ALTER TABLE {table.sql} CONVERT PARTITION p{bound} TO TABLE {other.sql}"
    if draft.pen.chance(0.5):
        return (
            out,
            f"ALTER TABLE {table.sql} CONVERT TABLE {other.sql} TO PARTITION p{bound} VALUES LESS THAN ({bound})",
        )
    draft.keep(replace(table, bounds=table.bounds[:-1]))
    draft.keep(other)
    return (out,)


def _lost(table: TableModel) -> bool:
    """MariaDB 11.4 loses a table with a slash in its name when its partitions are changed: error 1049, and it is
    gone.
    """
    return "/" in table.name


PARTITIONS: dict[str, tuple[int, Operation]] = {
    "partition": (2, _partition),
    "exchange partition": (3, _exchange),
    "convert partition": (3, _converted),
    "repartition": (1, _repartition),
}
