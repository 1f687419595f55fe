"""Operations on whole tables: create, drop, rename, swap, truncate, copy."""

from __future__ import annotations

from dataclasses import replace

from testing.workload import tables
from testing.workload.changes import inserted
from testing.workload.model import Operation, SchemaDraft
from testing.workload.mysql.rng_literals import names
from testing.workload.schemas import Statements, TableModel


def _drop(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) < 2:  # noqa: PLR2004
        return None
    del draft.tables[table.name]
    return (f"DROP TABLE {draft.pen.choice(('', 'IF EXISTS '))}{table.sql}",)


def _recreate(draft: SchemaDraft, table: TableModel) -> Statements:
    new, rows = tables.reshaped(draft, table)
    if draft.dialect == "mariadb" and draft.pen.chance(0.4):
        return (*(made.replace("CREATE TABLE", "CREATE OR REPLACE TABLE", 1) for made in new.created()), rows)
    return (f"DROP TABLE {table.sql}", *new.created(), rows)


def _truncate(draft: SchemaDraft, table: TableModel) -> Statements:
    draft.keep(replace(table, top=0))
    return (f"TRUNCATE TABLE {table.sql}", inserted(draft, replace(table, top=0), draft.pen.randint(1, 20)))


def _rename(draft: SchemaDraft, table: TableModel) -> Statements:
    new = replace(table, name=draft.maker.name("t", odd=0.4))
    draft.keep(new, table.name)
    if draft.pen.chance(0.5):
        return (f"RENAME TABLE {table.sql} TO {new.sql}",)
    return (f"ALTER TABLE {table.sql} RENAME TO {new.sql}",)


def _rename_and_back(draft: SchemaDraft, table: TableModel) -> Statements:
    aside = replace(table, name=draft.maker.name("t"))
    return (
        f"RENAME TABLE {table.sql} TO {aside.sql}", inserted(draft, table, 2).replace(table.sql, aside.sql, 1),
        f"RENAME TABLE {aside.sql} TO {table.sql}",
    )  # fmt: skip


def _swap(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two tables change names in one statement."""
    others = [other for other in draft.tables.values() if other.name != table.name and not other.fixed]
    if not others:
        return None
    other = draft.pen.choice(others)
    aside = replace(table, name=draft.maker.name("tmp", odd=0.1))
    draft.tables[table.name] = replace(other, name=table.name)
    draft.tables[other.name] = replace(table, name=other.name)
    return (f"RENAME TABLE {table.sql} TO {aside.sql}, {other.sql} TO {table.sql}, {aside.sql} TO {other.sql}",)


def _online_change(draft: SchemaDraft, table: TableModel) -> Statements:
    """As gh-ost and pt-online-schema-change do: a new table is filled beside the old one and takes its name."""
    new = replace(table, name=draft.maker.name("_new", odd=0))
    old = replace(table, name=draft.maker.name("_old", odd=0))
    column = replace(draft.maker.column(), nullable=True)  # the copy names it not
    draft.keep(replace(table, columns=(*table.columns, column)))
    listed = names([column.name for column in table.writable])
    ignore = draft.pen.choice(("", " IGNORE"))
    return (
        f"CREATE TABLE {new.sql} LIKE {table.sql}",
        f"ALTER TABLE {new.sql} ADD COLUMN {names([column.name])} {column.declared()}",
        f"INSERT{ignore} INTO {new.sql} ({listed}) SELECT {listed} FROM {table.sql}",
        f"RENAME TABLE {table.sql} TO {old.sql}, {new.sql} TO {table.sql}",
        f"DROP TABLE {old.sql}",
    )


def _create_like(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) >= tables.MAX_TABLES:
        return None
    copy = replace(table, name=draft.maker.name("t", odd=0.3), top=0)
    draft.keep(copy)
    listed = names([column.name for column in table.writable])
    draft.grown(copy, table.top)
    return (
        f"CREATE TABLE {copy.sql} LIKE {table.sql}",
        f"INSERT INTO {copy.sql} ({listed}) SELECT {listed} FROM {table.sql}",
    )


def _create_select(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The columns are as in the other table, without key, generated ones stored; MySQL with GTIDs refuses it until
    8.0.21.
    """
    if len(draft.tables) >= tables.MAX_TABLES or draft.dialect != "mariadb":
        return None
    columns = tuple(
        replace(column, extra="", generated="", invisible=False) for column in table.columns if not column.invisible
    )
    copy = replace(draft.maker.model(draft.maker.name("t", odd=0.3), columns, tables.NO_KEY), top=table.top)
    draft.keep(copy)
    listed = names([column.name for column in columns])
    return (f"CREATE TABLE {copy.sql} SELECT {listed} FROM {table.sql} LIMIT {draft.pen.randint(0, 500)}",)


def _temporary(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A table that only the session sees, and that the log must not show."""
    if table.top == 0:
        return None
    aside = replace(table, name=draft.maker.name("scratch", odd=0.2))
    listed = names([column.name for column in table.writable])
    return (
        f"CREATE TEMPORARY TABLE {aside.sql} AS SELECT {listed} FROM {table.sql} LIMIT 20",
        f"DELETE FROM {aside.sql} LIMIT 5",
        f"INSERT IGNORE INTO {table.sql} ({listed}) SELECT {listed} FROM {aside.sql}",
        f"DROP TEMPORARY TABLE {aside.sql}",
    )


def _hidden(draft: SchemaDraft, table: TableModel) -> Statements:
    """A temporary table of the same name; MariaDB's log has it in the other formats."""
    name, pen = table.sql, draft.pen
    logged = "SET STATEMENT binlog_format = 'STATEMENT' FOR " if draft.dialect == "mariadb" and pen.chance(0.6) else ""
    more = (f"ALTER TABLE {name} ADD more INT", f"INSERT INTO {name} VALUES (2, 3)", f"TRUNCATE TABLE {name}",
            f"CREATE INDEX i ON {name} (z)", f"DELETE FROM {name}")  # fmt: skip
    done = (
        f"CREATE TEMPORARY TABLE {name} (z INT)",
        f"INSERT INTO {name} VALUES (1)",
        *more[: pen.randint(0, len(more))],
    )
    return (*(f"{logged}{one}" for one in done), f"DROP TEMPORARY TABLE {name}")


TABLES: dict[str, tuple[int, Operation]] = {
    "create table": (4, tables.create),
    "drop table": (2, _drop),
    "create again": (3, _recreate),
    "truncate": (4, _truncate),
    "rename table": (4, _rename),
    "rename and back": (1, _rename_and_back),
    "swap tables": (4, _swap),
    "online schema change": (3, _online_change),
    "create like": (3, _create_like),
    "create select": (3, _create_select),
    "temporary table": (2, _temporary),
    "hidden table": (2, _hidden),
}
