"""The functions of a capture instance ("cdc.fn_cdc_get_all_changes_<capture_instance>", "… net_changes …")."""

from __future__ import annotations

from collections.abc import Sequence

from testing.servers.sqlserver.language.dialect import quoted

HEAD = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask")


def functions(instance: str, columns: Sequence[str]) -> list[str]:
    """Statements that make them anew; a type of their rows keeps the columns' sizes."""
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
    return [
        f"DROP FUNCTION IF EXISTS {function}",
        f"DROP VIEW IF EXISTS {row}",
        f"CREATE VIEW {row} AS SELECT {listed} FROM {table} t",
        f"CREATE FUNCTION {function}({arguments}) {how} AS $f$ {body} $f$",
    ]
