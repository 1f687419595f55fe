"""Operations on whole tables: create, drop, rename, swap, truncate, copy, move."""

from __future__ import annotations

from dataclasses import replace

from testing.workload import tables
from testing.workload.changes import inserted
from testing.workload.model import Alone, Operation, SchemaDraft, Whole
from testing.workload.postgres.schemas import TableModel as PostgresTable
from testing.workload.postgres.values.rng_literals import names, quoted
from testing.workload.schemas import Statements, TableModel

ASIDE = "tidemark aside"  # a schema that is not selected


def _drop(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) < 2:  # noqa: PLR2004
        return None
    del draft.tables[table.name]
    return (f"DROP TABLE {draft.pen.choice(('', 'IF EXISTS '))}{table.sql}{draft.pen.choice(('', ' CASCADE'))}",)


def _recreate(draft: SchemaDraft, table: TableModel) -> Statements:
    new, rows = tables.reshaped(draft, table)
    statements = (f"DROP TABLE {table.sql} CASCADE", *new.created(), rows)
    return Whole(statements) if draft.pen.chance(0.5) else statements


def _truncate(draft: SchemaDraft, table: TableModel) -> Statements:
    """Alone, or several at once."""
    pen, chosen = draft.pen, [table]
    others = [
        other for other in draft.tables.values() if other.name != table.name and not (other.fixed or other.refused)
    ]
    if others and pen.chance(0.3):
        chosen.append(pen.choice(others))
        draft.used["truncate several"] += 1
    how = pen.choice(("", " RESTART IDENTITY", " CONTINUE IDENTITY", " CASCADE", " RESTART IDENTITY CASCADE"))
    for one in chosen:
        draft.keep(replace(one, top=0))
    statement = f"TRUNCATE {pen.choice(('', 'TABLE '))}{', '.join(one.sql for one in chosen)}{how}"
    rows = inserted(draft, draft.tables[table.name], pen.randint(1, 20))
    return Whole((statement, rows)) if pen.chance(0.4) else (statement, rows)


def _truncate_family(draft: SchemaDraft, _table: TableModel) -> Statements | None:
    """A parent, and with it what refers to it."""
    parents = [
        one for one in draft.tables.values() if any(one.sql in " ".join(o.constraints) for o in draft.tables.values())
    ]
    if not parents:
        return None
    parent = draft.pen.choice(parents)
    draft.keep(replace(parent, top=0))
    return (f"TRUNCATE {parent.sql} CASCADE", inserted(draft, draft.tables[parent.name], 60))


def _rename(draft: SchemaDraft, table: TableModel) -> Statements:
    new = replace(table, name=draft.maker.name("t", odd=0.4))
    draft.keep(new, table.name)
    return (f"ALTER TABLE {table.sql} RENAME TO {new.sql}",)


def _rename_and_back(draft: SchemaDraft, table: TableModel) -> Statements:
    aside = replace(table, name=draft.maker.name("t"))
    return (
        f"ALTER TABLE {table.sql} RENAME TO {aside.sql}", inserted(draft, table, 2).replace(table.sql, aside.sql, 1),
        f"ALTER TABLE {aside.sql} RENAME TO {table.sql}",
    )  # fmt: skip


def _swap(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Two tables change names in one transaction."""
    others = [
        other for other in draft.tables.values() if other.name != table.name and not (other.fixed or other.refused)
    ]
    if not others:
        return None
    other = draft.pen.choice(others)
    aside = replace(table, name=draft.maker.name("tmp", odd=0.1))
    draft.tables[table.name] = replace(other, name=table.name)
    draft.tables[other.name] = replace(table, name=other.name)
    return Whole(
        (
            f"ALTER TABLE {table.sql} RENAME TO {aside.sql}",
            f"ALTER TABLE {other.sql} RENAME TO {table.sql}",
            f"ALTER TABLE {aside.sql} RENAME TO {other.sql}",
        )
    )


def _online_change(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A new table is filled beside the old one and takes its name."""
    if not isinstance(table, PostgresTable) or table.parts or any(c.generated for c in table.columns):
        return None
    new = replace(
        table,
        name=draft.maker.name("_new", odd=0),
        constraint="",
        identity="" if table.key.declared == "PRIMARY KEY" else "full",
    )
    new = replace(new, identity="full") if new.deferrable or not new.key.columns else new
    old = replace(table, name=draft.maker.name("_old", odd=0))
    column = replace(draft.maker.column(), nullable=True, generated="")
    draft.keep(replace(new, name=table.name, columns=(*table.columns, column)))
    listed = names([column.name for column in table.writable])
    return (
        f"CREATE TABLE {new.sql} (LIKE {table.sql} INCLUDING ALL)",
        *_identified(new),
        f"ALTER TABLE {new.sql} ADD COLUMN {quoted(column.name)} {column.declared()}",
        f"INSERT INTO {new.sql} ({listed}) SELECT {listed} FROM {table.sql}",
        f"DO $$ BEGIN ALTER TABLE {table.sql} RENAME TO {old.sql}; ALTER TABLE {new.sql} RENAME TO {table.sql}; END $$",
        f"DROP TABLE {old.sql}",
    )


def _identified(copy: PostgresTable) -> Statements:
    """A copy has the primary key that the draft knows of only where the statement that made it was not refused (a
    deadlock, say).
    """
    if copy.identity:
        return copy.identified()
    name = copy.sql.replace("'", "''")
    keyless = f"NOT EXISTS (SELECT FROM pg_index WHERE indrelid = '{name}'::regclass AND indisprimary)"
    return (f"DO $$ BEGIN IF {keyless} THEN ALTER TABLE {copy.sql} REPLICA IDENTITY FULL; END IF; END $$",)


def _create_like(draft: SchemaDraft, table: TableModel) -> Statements | None:
    if len(draft.tables) >= tables.MAX_TABLES or not isinstance(table, PostgresTable):
        return None
    copy = replace(
        table, name=draft.maker.name("t", odd=0.3), top=0, constraint="", parts=(), partitions="", bounds=(),
        identity="full" if table.identity else "", indexes=(),
    )  # fmt: skip
    draft.keep(copy)
    listed = names([column.name for column in table.writable])
    draft.grown(copy, table.top)
    return (
        f"CREATE TABLE {copy.sql} (LIKE {table.sql} INCLUDING ALL)",
        *_identified(copy),
        f"INSERT INTO {copy.sql} ({listed}) SELECT {listed} FROM {table.sql}",
    )


def _create_select(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """The columns are as in the other table, without key."""
    if len(draft.tables) >= tables.MAX_TABLES:
        return None
    columns = tuple(
        replace(column, extra="", generated="", nullable=True, default="", unique=False) for column in table.columns
    )
    copy = draft.maker.model(draft.maker.name("t", odd=0.3), columns, tables.NO_KEY)
    assert isinstance(copy, PostgresTable)
    draft.keep(replace(copy, top=table.top))
    listed = names([column.name for column in columns])
    made = f"CREATE TABLE {copy.sql} AS SELECT {listed} FROM {table.sql} LIMIT {draft.pen.randint(0, 500)}"
    return Whole((made, *copy.identified()))


def _temporary(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """A table that only the session sees, and that the log must not show."""
    if table.top == 0:
        return None
    aside = replace(table, name=draft.maker.name("scratch", odd=0.2))
    listed = names([column.name for column in table.writable])
    again = " ON CONFLICT DO NOTHING" if isinstance(table, PostgresTable) and not table.deferrable else ""
    return (
        f"CREATE TEMPORARY TABLE {aside.sql} AS SELECT {listed} FROM {table.sql} LIMIT 20",
        f"DELETE FROM {aside.sql} WHERE ctid < '(0,5)'",
        f"INSERT INTO {table.sql} ({listed}) SELECT {listed} FROM {aside.sql}{again}",
        f"DROP TABLE {aside.sql}",
    )


def _set_schema(draft: SchemaDraft, table: TableModel) -> Statements | None:
    """Out of what is selected, changed there, and back."""
    if not isinstance(table, PostgresTable):
        return None
    away = f"{quoted(ASIDE)}.{table.sql}"
    back = f"EXECUTE 'ALTER TABLE ' || $q${away}$q$ || ' SET SCHEMA ' || quote_ident(current_schema())"
    return (
        f"ALTER TABLE {table.sql} SET SCHEMA {quoted(ASIDE)}",
        inserted(draft, table, 3).replace(table.sql, away, 1),
        f"DO $$ BEGIN {back}; END $$",
    )


def _rewrite(draft: SchemaDraft, table: TableModel) -> Statements:
    """The same rows in another file, or read by the server for itself."""
    return Alone((draft.pen.choice((f"VACUUM FULL {table.sql}", f"ANALYZE {table.sql}", f"VACUUM {table.sql}")),))


TABLES: dict[str, tuple[int, Operation]] = {
    "create table": (4, tables.create),
    "drop table": (2, _drop),
    "create again": (3, _recreate),
    "truncate": (5, _truncate),
    "truncate family": (5, _truncate_family),
    "rename table": (4, _rename),
    "rename and back": (1, _rename_and_back),
    "swap tables": (4, _swap),
    "online schema change": (3, _online_change),
    "create like": (3, _create_like),
    "create select": (3, _create_select),
    "temporary table": (2, _temporary),
    "set schema": (2, _set_schema),
    "rewrite": (1, _rewrite),
}
