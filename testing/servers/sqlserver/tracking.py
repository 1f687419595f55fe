"""Change Tracking: enabled and disabled, a side table and a trigger for each table, CHANGETABLE(CHANGES …).

"Enable and Disable Change Tracking", "CHANGETABLE (Transact-SQL)", "sys.change_tracking_tables (Transact-SQL)".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from testing.servers.sqlserver.cdc.procedures import Arguments, locked, set_flags
from testing.servers.sqlserver.language.captured import SYSTEM
from testing.servers.sqlserver.language.dialect import quoted, tokens
from testing.servers.sqlserver.language.names import TableName
from testing.servers.sqlserver.refusals import Refusal

if TYPE_CHECKING:
    from testing.servers.sqlserver.session import Session

_DATABASE = re.compile(r"SET\s+CHANGE_TRACKING\s*(?:=\s*(ON|OFF))?\s*(\(.*\))?\s*;?\s*$", re.IGNORECASE | re.DOTALL)
_TABLE = re.compile(r"\s(ENABLE|DISABLE)\s+CHANGE_TRACKING\b", re.IGNORECASE)
_RETENTION = re.compile(r"CHANGE_RETENTION\s*=\s*(\d+)\s*(MINUTES|HOURS|DAYS)", re.IGNORECASE)
_MINUTES = {"minutes": 1, "hours": 60, "days": 1440}


def altered(session: Session, sql: str) -> bool:
    """ALTER DATABASE … SET CHANGE_TRACKING, ALTER TABLE … ENABLE or DISABLE CHANGE_TRACKING; False for all else."""
    if found := _DATABASE.search(sql):
        _set_database(session, (found[1] or "").upper(), found[2] or "")
        return True
    if (found := _TABLE.search(sql)) is None:
        return False
    parts = [one.text for one in tokens(sql[: found.start()])[2:] if one.text != "."]
    table = session.names.table(*["", "", *parts][-3:])
    session.atomic(lambda: _set_table(session, table, enabled=found[1].upper() == "ENABLE"), writes=False)
    session.defined()
    return True


def _set_database(session: Session, switch: str, options: str) -> None:
    known = session.around.flags(session.connection).get("tracking")
    if switch == "OFF":
        if session.connection.query("SELECT FROM ss.ct_tables"):
            raise Refusal(22115, "Change tracking is enabled for one or more tables in the database.")
        set_flags(session, tracking=0)
        return
    if switch == "ON" and known is not None:
        raise Refusal(5088, f"Change tracking is already enabled for database '{session.connection.database}'.")
    if not switch and known is None:
        raise Refusal(5090, f"Change tracking is disabled for database '{session.connection.database}'.")
    retention = _RETENTION.search(options)
    minutes = int(retention[1]) * _MINUTES[retention[2].lower()] if retention else known or 2 * 1440
    set_flags(session, tracking=minutes)


def _set_table(session: Session, table: TableName, *, enabled: bool) -> None:
    connection, known = session.connection, tracked(session, table)
    if not enabled:
        if not known:
            raise Refusal(4998, f"Change tracking is not enabled on table '{table.name}'.")
        connection.query(f"SELECT ss.ct_untrack({table.oid})")
        return
    if session.around.flags(connection).get("tracking") is None:
        raise Refusal(22105, f"Change tracking is not enabled on database '{connection.database}'.")
    if known:
        raise Refusal(4996, f"Change tracking is already enabled for table '{table.name}'.")
    with locked(session, table) as held:
        if not (keys := _keys(session, held)):
            raise Refusal(
                4997,
                f"Cannot enable change tracking on table '{table.name}'. Change tracking requires a primary key on the"
                " table. Create a primary key on the table before enabling change tracking.",
            )
        for statement in _made(held, keys):
            connection.execute(statement)


def tracked(session: Session, table: TableName) -> bool:
    """Is change tracking enabled for the table?"""
    return bool(session.connection.query(f"SELECT FROM ss.ct_tables WHERE source = {table.oid}"))


def renamed(session: Session, table: TableName) -> None:
    """After a column of a tracked table was renamed: what is made of its key's names is made again."""
    if tracked(session, table):
        for statement in _routines(table, _keys(session, table)):
            session.connection.execute(statement)


def _keys(session: Session, table: TableName) -> list[tuple[str, str]]:
    """Names and types of the primary key's columns."""
    rows = session.connection.query(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(l.collname, '') FROM pg_index i CROSS JOIN"
        " unnest(i.indkey) WITH ORDINALITY AS k (number, place) JOIN pg_attribute a ON a.attrelid = i.indrelid AND"
        " a.attnum = k.number LEFT JOIN pg_collation l ON l.oid = a.attcollation"
        f" WHERE i.indisprimary AND i.indrelid = {table.oid} ORDER BY k.place"
    )
    plain = ("", "default")
    return [
        (name, kind + ("" if collation in plain else f" COLLATE ss.{quoted(collation)}"))
        for name, kind, collation in rows
    ]


def _made(table: TableName, keys: list[tuple[str, str]]) -> list[str]:
    side = f"ss.ct_{table.oid}"
    columns = ", ".join(f"k{at} {kind}" for at, (_, kind) in enumerate(keys))
    text = table.sql.replace("'", "''")
    return [
        f"CREATE TABLE {side} (n bigserial, xid xid8 NOT NULL, op text NOT NULL, {columns})",
        f"CREATE INDEX ON {side} (xid)",
        *_routines(table, keys),
        (
            f"CREATE TRIGGER change_tracking AFTER INSERT OR UPDATE OR DELETE ON {table.sql} FOR EACH ROW EXECUTE"
            f" FUNCTION {side}()"
        ),
        f"CREATE TRIGGER truncated AFTER TRUNCATE ON {table.sql} FOR EACH STATEMENT EXECUTE FUNCTION ss.ct_truncated()",
        f"INSERT INTO ss.ct_tables SELECT '{text}'::regclass, v, v FROM ss.ct_newest() AS v",
    ]


def _routines(table: TableName, keys: list[tuple[str, str]]) -> list[str]:
    """The trigger's function, and that of CHANGETABLE with the type of its rows."""
    side, own = f"ss.ct_{table.oid}", ", ".join(f"k{at}" for at in range(len(keys)))
    old, new = (", ".join(f"{row}.{quoted(name)}" for name, _ in keys) for row in ("OLD", "NEW"))
    put = f"INSERT INTO {side} (xid, op, {own}) VALUES (pg_current_xact_id(), "
    row, function = f"ss.changes_row_{table.oid}", f"ss.changes_{table.oid}"
    system = ", ".join(f'{value} AS "{name}"' for name, value in SYSTEM.items())
    named = ", ".join(f"c.k{at} AS {quoted(name)}" for at, (name, _) in enumerate(keys))
    listed = ", ".join(f"x.k{at}" for at in range(len(keys)))
    return [
        (f"CREATE OR REPLACE FUNCTION {side}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $f$ BEGIN"
        " INSERT INTO ss.ct_open VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING;"
        f" IF TG_OP = 'INSERT' THEN {put}'I', {new});"
        f" ELSIF TG_OP = 'DELETE' THEN {put}'D', {old});"
        f" ELSIF ROW({old}) IS DISTINCT FROM ROW({new}) THEN {put}'D', {old}); {put}'I', {new});"
        f" ELSE {put}'U', {new}); END IF; RETURN NULL; END $f$"),
        f"DROP FUNCTION IF EXISTS {function}(int8)",
        f"DROP VIEW IF EXISTS {row}",
        f"CREATE VIEW {row} AS SELECT {system}, {named} FROM {side} c",
        (f"CREATE FUNCTION {function}(int8) RETURNS SETOF {row} STABLE SECURITY DEFINER LANGUAGE sql AS $f$"
        " SELECT x.version, x.created, (CASE WHEN x.op = 'D' THEN 'D' WHEN x.first = 'I' THEN 'I' ELSE 'U'"
        f' END)::ss."nchar"(1), NULL::ss."varbinary"(4100), NULL::ss."varbinary"(128), {listed} FROM (SELECT c.*,'
        " m.version, row_number() OVER w AS place, count(*) OVER k AS many, first_value(c.op) OVER w AS first,"
        f" max(m.version) FILTER (WHERE c.op = 'I') OVER k AS created FROM {side} c JOIN ss.ct_commits m ON"
        f" m.xid = c.xid WHERE m.version > coalesce($1, 0) WINDOW k AS (PARTITION BY {own}),"
        f" w AS (PARTITION BY {own} ORDER BY m.version, c.n)) AS x WHERE x.place = x.many $f$"),
        f"GRANT SELECT ON {row} TO PUBLIC",
    ]  # fmt: skip


def cleanup(session: Session, _: Arguments) -> None:
    """sys.sp_flush_CT_internal_table_on_demand; here of all tables."""
    session.connection.query("SELECT ss.ct_cleanup()")
