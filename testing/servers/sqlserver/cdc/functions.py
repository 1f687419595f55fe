"""The functions of a capture instance ("cdc.fn_cdc_get_all_changes_<capture_instance>", "… net_changes …")."""

from __future__ import annotations

from collections.abc import Sequence

from testing.servers.sqlserver.language.dialect import quoted

HEAD = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")


def functions(instance: str, columns: Sequence[str], keys: Sequence[str] = ()) -> list[str]:
    """Statements that recreate the functions; their row type keeps the columns' sizes.  keys: for net changes."""
    text, table = instance.replace("'", "''"), f"cdc.{quoted(instance + '_CT')}"
    row, function = f"ss.{quoted(instance + '_row')}", f"cdc.{quoted('fn_cdc_get_all_changes_' + instance)}"
    listed = ", ".join(f"t.{quoted(name)}" for name in (*HEAD, *columns))
    arguments = 'ss."varbinary", ss."varbinary", text'
    lsn, operation = 't."__$start_lsn"::bytea', 't."__$operation"'
    body = (
        f"SELECT {listed} FROM {table} t"
        f" WHERE ss.check_range('{text}', $1::bytea, $2::bytea, $3, ARRAY['all', 'all update old'])"
        f" AND {lsn} BETWEEN $1::bytea AND $2::bytea AND ({operation} <> 3 OR lower(btrim($3)) = 'all update old')"
    )
    how = f"RETURNS SETOF {row} STABLE SECURITY DEFINER LANGUAGE sql"
    net = f"cdc.{quoted('fn_cdc_get_net_changes_' + instance)}"
    made = [
        f"DROP FUNCTION IF EXISTS {net}",
        f"DROP FUNCTION IF EXISTS {function}",
        f"DROP VIEW IF EXISTS {row}",
        f"CREATE VIEW {row} AS SELECT {listed} FROM {table} t",
        f"CREATE FUNCTION {function}({arguments}) {how} AS $f$ {body} $f$",
    ]
    if keys:
        made.append(f"CREATE FUNCTION {net}({arguments}) {how} AS $f$ {_net(text, table, columns, keys)} $f$")
    return made


def _net(instance: str, table: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """The last row of each key, with what was done to it in the range, all in all."""
    order = 't."__$start_lsn", t."__$command_id", t."__$seqval", t."__$operation"'
    by = ", ".join(f"t.{quoted(name)}" for name in keys)
    listed = "".join(f", l.{quoted(name)}" for name in columns)
    return (
        'SELECT l."__$start_lsn", l."__$seqval", CASE WHEN l."__$operation" = 1 THEN 1 WHEN l.first = 2 THEN 2 ELSE 4'
        f' END, NULL::ss."varbinary"{listed} FROM (SELECT t.*, row_number() OVER (PARTITION BY {by} ORDER BY {order}'
        f") AS n, count(*) OVER (PARTITION BY {by}) AS many,"
        f' first_value(t."__$operation") OVER (PARTITION BY {by} ORDER BY {order}) AS first FROM {table} t'
        f" WHERE ss.check_range('{instance}', $1::bytea, $2::bytea, $3, ARRAY['all'])"
        ' AND t."__$start_lsn"::bytea BETWEEN $1::bytea AND $2::bytea AND t."__$operation" <> 3) AS l'
        ' WHERE l.n = l.many AND NOT (l.first = 2 AND l."__$operation" = 1)'
    )
