"""Operations on whole tables: create, drop, rename, swap."""

from __future__ import annotations

from dataclasses import replace

from testing.workload import tables
from testing.workload.changes import inserted
from testing.workload.model import Operation, SchemaDraft, Whole
from testing.workload.schemas import Statements, TableModel
from testing.workload.sqlserver.spelling import text


def _renamed(table: TableModel, new: str) -> str:
    return f"EXEC sp_rename {text(table.sql)}, {text(new)}"


def _referred(draft: SchemaDraft, table: TableModel) -> bool:
    """By another's foreign key, or by its own to another, under its name."""
    return table.fixed or any(table.sql in " ".join(one.constraints) for one in draft.tables.values())


def _drop(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) < 2 or _referred(draft, table):  # noqa: PLR2004
        return None
    del draft.tables[table.name]
    return (f"DROP TABLE {draft.pen.choice(('', 'IF EXISTS '))}{table.sql}",)


def _recreate(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if _referred(draft, table):
        return None
    new, rows = tables.reshaped(draft, table)
    statements = (f"DROP TABLE {table.sql}", *new.created(), rows)
    return Whole(statements) if draft.pen.chance(0.5) else statements


def _rename(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if _referred(draft, table):
        return None
    new = replace(table, name=draft.maker.name("t", odd=0.4))
    draft.keep(new, table.name)
    return (_renamed(table, new.name),)


def _rename_and_back(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if _referred(draft, table):
        return None
    aside = replace(table, name=draft.maker.name("t"))
    return (
        _renamed(table, aside.name),
        inserted(draft, table, 2).replace(table.sql, aside.sql, 1),
        _renamed(aside, table.name),
    )


def _swap(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two tables change names in one transaction."""
    others = [
        one for one in draft.tables.values() if one.name != table.name and not (one.refused or _referred(draft, one))
    ]
    if not others or _referred(draft, table):
        return None
    other = draft.pen.choice(others)
    aside = replace(table, name=draft.maker.name("tmp", odd=0.1))
    draft.tables[table.name] = replace(other, name=table.name)
    draft.tables[other.name] = replace(table, name=other.name)
    return Whole((_renamed(table, aside.name), _renamed(other, table.name), _renamed(aside, other.name)))


TABLES: dict[str, tuple[int, Operation]] = {
    "create table": (4, tables.create),
    "drop table": (2, _drop),
    "create again": (3, _recreate),
    "rename table": (4, _rename),
    "rename and back": (1, _rename_and_back),
    "swap tables": (3, _swap),
}
