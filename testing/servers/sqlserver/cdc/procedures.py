"""sys.sp_cdc_*: enabling, disabling, jobs, cleanup ("Change Data Capture Stored Procedures (Transact-SQL)")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from testing.servers.sqlserver.cdc.functions import functions
from testing.servers.sqlserver.language.dialect import quoted, tokens
from testing.servers.sqlserver.language.names import Names, TableName
from testing.servers.sqlserver.refusals import Refusal

if TYPE_CHECKING:
    from testing.servers.sqlserver.session import Session

Arguments = Mapping[str, str | None]
TABLES = Path(__file__).with_name("tables.sql").read_text()
_AGENT = "SQLServerAgent is not currently running so it cannot be notified of this action."


def enable_db(session: Session, _: Arguments) -> None:
    """sys.sp_cdc_enable_db."""
    if session.connection.query("SELECT ss.super()")[0][0] != "t":
        raise Refusal(
            22902, "Caller is not authorized to initiate the requested action. Sysadmin privileges are required."
        )
    if session.state.depth:
        raise Refusal(226, "sys.sp_cdc_enable_db is not allowed within multi-statement transaction by the emulator.")
    if "cdc" in session.around.flags(session.connection):
        return
    connection = session.connection
    if "cdc" in session.names.schemas:
        raise Refusal(
            22906,
            f"The database '{connection.database}' cannot be enabled for Change Data Capture because a database user"
            " named 'cdc' or a schema named 'cdc' already exists in the current database.",
        )
    connection.execute(TABLES)
    slot = _slot(session)
    if not connection.query("SELECT FROM pg_replication_slots WHERE slot_name = $1::text", [slot]):
        connection.query("SELECT pg_create_logical_replication_slot($1::text, 'pgoutput')", [slot])
    connection.query(
        "INSERT INTO cdc.lsn_time_mapping SELECT ss.lsn(pg_current_wal_insert_lsn()), ss.getdate(), ss.getdate(),"
        " '\\x00'::bytea"
    )
    set_flags(session, cdc=True)
    session.defined()


def disable_db(session: Session, _: Arguments) -> None:
    """sys.sp_cdc_disable_db: instances, their tables and metadata are removed."""
    if session.connection.query("SELECT ss.super()")[0][0] != "t":
        raise Refusal(
            22902, "Caller is not authorized to initiate the requested action. Sysadmin privileges are required."
        )
    if "cdc" not in session.around.flags(session.connection):
        return
    set_flags(session, cdc=False)
    connection = session.connection
    connection.execute(
        "BEGIN; DELETE FROM ss.jobs; SELECT ss.drop_instances(); DROP PUBLICATION cdc; DROP SCHEMA cdc CASCADE; DELETE"
        " FROM ss.captures; COMMIT"
    )
    _drop_slot(session)
    session.defined()


def _drop_slot(session: Session) -> None:
    connection = session.connection
    connection.execute("SET lock_timeout = '20s'")
    for _ in range(200):
        if not connection.query(
            "SELECT FROM pg_replication_slots WHERE slot_name = $1::text AND active", [_slot(session)]
        ):
            break
        connection.query("SELECT pg_sleep(0.05)")
    connection.query(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1::text",
        [_slot(session)],
    )


def _slot(session: Session) -> str:
    return "cdc_" + str(
        session.connection.query("SELECT oid FROM pg_database WHERE datname = current_database()")[0][0]
    )


def set_flags(session: Session, **flags: int) -> None:
    """Of the database; one that is 0 is taken away."""
    import json

    known = dict(session.around.flags(session.connection))
    for name, on in flags.items():
        if on:
            known[name] = on
        else:
            known.pop(name, None)
    session.connection.execute(f"COMMENT ON DATABASE {quoted(session.connection.database)} IS '{json.dumps(known)}'")
    session.around.changed(session.connection.database)


def _owner(session: Session) -> None:
    if "cdc" not in session.around.flags(session.connection):
        raise Refusal(
            22901, f"The database '{session.connection.database}' is not enabled for Change Data Capture. Ensure that"
                " the correct database context is set and retry the"
            " operation. To report on the databases enabled for Change Data Capture, query the is_cdc_enabled column"
            " in the sys.databases catalog view.",
        )  # fmt: skip
    if session.connection.query("SELECT ss.super() OR ss.is_member('db_owner') = 1")[0][0] != "t":
        raise Refusal(22904, "Caller is not authorized to initiate the requested action. DBO privileges are required.")


def _source(session: Session, arguments: Arguments) -> TableName:
    schema, name = arguments.get("source_schema"), arguments.get("source_name")
    if not schema or not name:
        raise Refusal(
            201, "Procedure or function 'sp_cdc_enable_table' expects parameter '@source_name', which was not supplied."
        )
    try:
        return session.names.table("", schema, name)
    except Refusal:
        raise Refusal(
            22931, f"Source table '{schema}.{name}' does not exist in the current database. Ensure that the correct"
                " database context is set. Specify a valid schema and"
            " table name for the database.",
        ) from None  # fmt: skip


def enable_table(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_enable_table; at most two instances per table."""
    _owner(session)
    table = _source(session, arguments)
    connection = session.connection
    instance = arguments.get("capture_instance") or f"{table.schema}_{table.name}"
    if len(instance) > 100 or len(f"fn_cdc_get_all_changes_{instance}".encode()) > 63:
        raise Refusal(
            22965, f"The capture instance name '{instance}' is too long for the emulator, whose names have 63 bytes."
        )
    if connection.query("SELECT FROM ss.captures WHERE lower(instance) = lower($1::text)", [instance]):
        raise Refusal(
            22926,
            f"Could not create a capture instance because the capture instance name '{instance}' already exists in the"
            " current database. Specify an explicit unique name for the parameter @capture_instance.",
        )
    if len(connection.query(f"SELECT FROM ss.captures WHERE source = {table.oid}")) > 1:
        raise Refusal(
            22962, f"Two capture instances already exist for source table '{table.schema}.{table.name}'. A table can"
                " have at most two capture instances. If the current"
            " tracking options are not appropriate, disable change tracking for the obsolete instance by using"
            " sys.sp_cdc_disable_table and retry the operation.",
        )  # fmt: skip
    session.atomic(lambda: _make(session, table, instance, arguments))
    if (
        connection.query("SELECT status FROM sys.dm_server_services WHERE servicename::text LIKE '%Agent%'")[0][0]
        != "4"
    ):
        from testing.servers.sqlserver.wire import tokens as wire

        session.flush()
        session.channel.add(wire.message(22022, _AGENT, level=0))
    session.defined()


def _make(session: Session, table: TableName, instance: str, arguments: Arguments) -> None:
    with locked(session, table) as held:
        _made(session, held, instance, arguments, _listed(held, arguments.get("captured_column_list")))


@contextmanager
def whole(session: Session) -> Iterator[None]:
    """Run the block in one transaction: the session's, or a new one if it has none."""
    own = not session.state.depth
    if own:
        session.connection.execute("BEGIN")
    try:
        yield
    except BaseException:  # a cancel, too
        if own and session.connection.in_transaction:
            session.connection.execute("ROLLBACK")
        raise
    if own:
        session.connection.execute("COMMIT")


@contextmanager
def locked(session: Session, table: TableName) -> Iterator[TableName]:
    """As `whole`, with the table locked against other writers; yields its definition under the lock.  Refusal 208 if
    another table has its name by then.
    """
    with whole(session):
        session.connection.execute(f"LOCK TABLE {table.sql} IN SHARE ROW EXCLUSIVE MODE")
        if not session.connection.query(f"SELECT WHERE to_regclass($1::text)::oid = {table.oid}", [table.sql]):
            raise Refusal(208, f"Invalid object name '{table.schema}.{table.name}'.")
        yield Names(session.connection.query, session.connection.database).table("", table.schema, table.name)


def _made(session: Session, table: TableName, instance: str, arguments: Arguments, wanted: list[str]) -> None:
    connection = session.connection
    index = connection.query(
        "SELECT c.relname, array_to_string(ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = i.indrelid"
        " AND a.attnum = ANY (i.indkey)), chr(1)) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        f" WHERE i.indrelid = {table.oid} AND i.indisunique AND (i.indisprimary OR lower(c.relname) = lower($1::text))"
        " ORDER BY lower(c.relname) = lower($1::text) DESC LIMIT 1",
        [arguments.get("index_name") or ""],
    )
    net = (arguments.get("supports_net_changes") or ("1" if index else "0")) == "1"
    if net and not index:
        raise Refusal(
            22939,
            "The parameter @supports_net_changes is set to 1, but the source table does not have a primary key defined"
            " and no alternate unique index has been specified.",
        )
    keys = index[0][1].split("\1") if index else []
    if missing := [one for one in keys if net and one not in wanted]:
        raise Refusal(22938, f"The captured column list does not hold the key column '{missing[0]}'.")
    columns = {one.name: one for one in table.columns.values()}
    change_table = f"cdc.{quoted(instance + '_CT')}"
    declared = []
    for name in wanted:
        one = columns[name]
        kind = 'ss."binary"(8)' if one.kind == "timestamp" else one.type
        collation = f" COLLATE ss.{quoted(one.collation)}" if one.collation not in ("", "default") else ""
        declared.append(f"{quoted(name)} {kind}{collation}")
    listed = ", ".join(declared)
    connection.execute(
        f'CREATE TABLE {change_table} ("__$start_lsn" ss."binary"(10) NOT NULL, "__$end_lsn" ss."binary"(10),'
        ' "__$seqval" ss."binary"(10) NOT NULL, "__$operation" int4 NOT NULL,'
        f' "__$update_mask" ss."varbinary"(128), {listed}, "__$command_id" int4);'
        f'CREATE INDEX ON {change_table} ("__$start_lsn", "__$command_id", "__$seqval", "__$operation");'
        f"ALTER TABLE {table.sql} REPLICA IDENTITY FULL"
    )
    if not connection.query(
        "SELECT FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid WHERE p.pubname = 'cdc' AND"
        f" r.prrelid = {table.oid}"
    ):
        connection.execute(f"ALTER PUBLICATION cdc ADD TABLE {table.sql}")
    role = arguments.get("role_name")
    if role:
        from testing.servers.sqlserver.security import make_role

        make_role(session, role)
    connection.query(
        "INSERT INTO ss.captures (instance, source, change_table, start_lsn, net, role, index_name) SELECT $1::text,"
        f" {table.oid}, '{change_table.replace(chr(39), chr(39) * 2)}'::regclass,"
        " ss.lsn(pg_current_wal_insert_lsn()), $2::bool, $3::text, $4::text", [instance, str(net), role or None,
        index[0][0] if index else None],
    )  # fmt: skip
    connection.query(
        "INSERT INTO cdc.change_tables SELECT c.change_table::int8::int4, 0, c.source::int8::int4, c.instance,"
        " c.start_lsn, NULL, c.net::int::ss.bit, NULL, c.role, c.index_name, NULL, ss.getdate(), CASE WHEN EXISTS"
        " (SELECT FROM sys.partitions p WHERE p.object_id = c.source::int8 AND p.partition_number > 1)"
        " THEN $2::int4 ELSE 1 END::ss.bit"  # "for nonpartitioned tables, the switch setting is always 1"
        " FROM ss.captures c WHERE c.instance = $1::text", [instance, arguments.get("allow_partition_switch") or "1"],
    )  # fmt: skip
    for ordinal, name in enumerate(wanted, 1):
        one = columns[name]
        connection.query(
            "INSERT INTO ss.captured_columns SELECT $1::text, a.attname, a.attnum, $3::int4, $4::bool FROM"
            f" pg_attribute a WHERE a.attrelid = {table.oid} AND a.attname = $2::text",
            [instance, name, str(ordinal), str(one.computed)],
        )
        connection.query(
            "INSERT INTO cdc.captured_columns SELECT c.change_table::int8::int4, $2::text, x.number, $3::text,"
            " x.ordinal, $4::bool::int::ss.bit, NULL FROM ss.captures c JOIN ss.captured_columns x USING (instance)"
            " WHERE c.instance = $1::text AND x.name = $2::text", [instance, name, one.kind, str(one.computed)],
        )  # fmt: skip
    for ordinal, name in enumerate(keys, 1):
        connection.query(
            f"INSERT INTO cdc.index_columns SELECT c.change_table::int8::int4, a.attname::text, {ordinal}::ss.tinyint,"
            " a.attnum FROM ss.captures c JOIN pg_attribute a ON a.attrelid = c.source AND a.attname = $2::text WHERE"
            " c.instance = $1::text",
            [instance, name],
        )
    for statement in functions(instance, wanted, keys if net else ()):
        connection.execute(statement)


def unseen(session: Session, table: TableName, made: list[str]) -> list[str]:
    """Statements of ALTER TABLE … SWITCH, whose rows the log does not show: refused if a capture instance of a
    partitioned table forbids it ("sys.sp_cdc_enable_table (Transact-SQL)", @allow_partition_switch; the error's number
    is not documented).
    """
    if session.connection.query(
        f"SELECT FROM cdc.change_tables WHERE source_object_id = {table.oid} AND partition_switch::int2 = 0"
    ):
        raise Refusal(50000, f"SWITCH is not allowed for '{table.name}', which is enabled for Change Data Capture so.")
    return [f"ALTER PUBLICATION cdc DROP TABLE {table.sql}", *made, f"ALTER PUBLICATION cdc ADD TABLE {table.sql}"]


def _listed(table: TableName, given: str | None) -> list[str]:
    """The captured columns, in the table's order."""
    if not given:
        return [one.name for one in table.columns.values()]
    chosen = {one.text.lower() for one in tokens(given) if one.text != ","}
    for name in chosen:
        if name not in table.columns:
            raise Refusal(
                22942,
                "Columns specified in the captured column list could not be mapped to columns in source table"
                f" '{table.schema}.{table.name}'. Verify that the columns specified in the parameter"
                " @captured_column_list are delimited properly and identify columns in the source table.",
            )
    return [one.name for low, one in table.columns.items() if low in chosen]


def disable_table(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_disable_table; 'all' for every instance."""
    _owner(session)
    table = _source(session, arguments)
    given = arguments.get("capture_instance") or ""
    rows = session.connection.query(
        f"SELECT instance FROM ss.captures WHERE source = {table.oid} AND (lower(instance) = lower($1::text) OR"
        " lower($1::text) = 'all')",
        [given],
    )
    if not rows:
        raise Refusal(
            22960, f"Change data capture instance '{given}' has not been enabled for the source table"
                f" '{table.schema}.{table.name}'. Use sys.sp_cdc_help_change_data_capture to"
            " verify the capture instance name, and retry the operation.",
        )  # fmt: skip

    def drop() -> None:
        for (name,) in rows:
            session.connection.query("SELECT ss.drop_instance($1::text)", [name])

    session.atomic(drop)
    session.defined()


def cleanup(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_cleanup_change_table: rows below the mark go, and the instance begins there."""
    _owner(session)
    name, low = arguments.get("capture_instance") or "", arguments.get("low_water_mark")
    rows = session.connection.query(
        "SELECT instance, format('cdc.%I', instance || '_CT') FROM ss.captures WHERE lower(instance) = lower($1::text)",
        [name],
    )
    if not rows:
        raise Refusal(22960, f"Change data capture instance '{name}' has not been enabled.")
    if low is not None and not session.connection.query(
        "SELECT FROM cdc.lsn_time_mapping WHERE start_lsn::bytea = $1::bytea", [low]
    ):
        raise Refusal(
            22964,
            "LSN specified, as value for the parameter @low_water_mark is invalid. Specify a start_lsn of"
            " cdc.lsn_time_mapping.",
        )
    clean(session, rows[0][0], rows[0][1], low)


def clean(session: Session, instance: str, table: str, low: str | None) -> None:
    """Up to the mark; without one, up to all that there is."""
    mark = low or session.connection.query("SELECT sys.fn_cdc_get_max_lsn()::bytea")[0][0]
    if mark is None:
        return
    session.connection.query(
        "UPDATE cdc.change_tables SET start_lsn = $2::bytea WHERE capture_instance::text = $1::text AND"
        " start_lsn::bytea < $2::bytea",
        [instance, mark],
    )
    session.connection.query(f'DELETE FROM {table} WHERE "__$start_lsn"::bytea < $1::bytea', [mark])
    session.connection.query(
        "DELETE FROM cdc.lsn_time_mapping WHERE start_lsn::bytea < (SELECT min(t.start_lsn::bytea::text) FROM"
        " cdc.change_tables t)::bytea"
    )


def cleanup_job(session: Session, _: Arguments) -> None:
    """What the cleanup job does: retention counts from the newest entry ("sys.sp_cdc_add_job", @retention)."""
    connection = session.connection
    rows = connection.query(
        "SELECT m.start_lsn::bytea FROM cdc.lsn_time_mapping m WHERE m.tran_end_time <= ss.dateadd('minute', -(SELECT"
        " retention FROM ss.jobs WHERE kind = 'cleanup'), (SELECT max(tran_end_time) FROM cdc.lsn_time_mapping))"
        " ORDER BY m.start_lsn DESC LIMIT 1"
    )  # fmt: skip
    if rows:
        for instance, table in connection.query(
            "SELECT instance, format('cdc.%I', instance || '_CT') FROM ss.captures"
        ):
            clean(session, instance, table, rows[0][0])


def add_job(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_add_job."""
    _owner(session)
    session.connection.query(
        "INSERT INTO ss.jobs (kind) VALUES (lower($1::text)) ON CONFLICT DO NOTHING", [arguments.get("job_type")]
    )
    change_job(session, arguments)


def drop_job(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_drop_job."""
    _owner(session)
    session.connection.query("DELETE FROM ss.jobs WHERE kind = lower($1::text)", [arguments.get("job_type")])


def change_job(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_change_job; what is NULL stays."""
    _owner(session)
    settable = ("maxtrans", "maxscans", "pollinginterval", "retention", "threshold")
    for name in settable:
        if (value := arguments.get(name)) is not None:
            session.connection.query(
                f"UPDATE ss.jobs SET {name} = $1::int8 WHERE kind = lower($2::text)",
                [value, arguments.get("job_type") or "capture"],
            )


def _running(*, running: bool) -> Callable[[Session, Arguments], None]:
    def run(session: Session, arguments: Arguments) -> None:
        _owner(session)
        session.connection.query(
            "UPDATE ss.jobs SET running = $1::bool WHERE kind = lower($2::text)",
            [str(running), arguments.get("job_type") or "capture"],
        )

    return run


def help_jobs(session: Session, _: Arguments) -> None:
    """sys.sp_cdc_help_jobs."""
    _owner(session)
    session.send(
        "SELECT job_id, job_type, ('cdc.' || current_database() || '_' || job_type::text)::ss.nvarchar(128) AS"
        " job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold FROM msdb.cdc_jobs"
    )


def help_cdc(session: Session, arguments: Arguments) -> None:
    """sys.sp_cdc_help_change_data_capture."""
    _owner(session)
    schema, name = arguments.get("source_schema"), arguments.get("source_name")
    session.send(
        "SELECT n.nspname::ss.nvarchar(128) AS source_schema, s.relname::ss.nvarchar(128) AS source_table,"
        " t.capture_instance, t.object_id, t.source_object_id, t.start_lsn, t.end_lsn, t.supports_net_changes,"
        " t.has_drop_pending, t.role_name, t.index_name, t.filegroup_name, t.create_date FROM cdc.change_tables t JOIN"
        " pg_class s ON s.oid = t.source_object_id::oid JOIN pg_namespace n ON n.oid = s.relnamespace"
        " WHERE ($1::text IS NULL OR lower(n.nspname) = lower($1::text)) AND ($2::text IS NULL OR lower(s.relname) ="
        " lower($2::text))", [schema, name],
    )  # fmt: skip


PROCEDURES: dict[str, Callable[[Session, Arguments], None]] = {
    "sp_cdc_enable_db": enable_db, "sp_cdc_disable_db": disable_db, "sp_cdc_enable_table": enable_table,
    "sp_cdc_disable_table": disable_table,
    "sp_cdc_cleanup_change_table": cleanup, "sp_cdc_change_job": change_job, "sp_cdc_add_job": add_job,
    "sp_cdc_drop_job": drop_job, "sp_cdc_start_job": _running(running=True),
    "sp_cdc_stop_job": _running(running=False),
    "sp_cdc_help_jobs": help_jobs, "sp_cdc_help_change_data_capture": help_cdc, "sp_mscdc_cleanup_job": cleanup_job,
}  # fmt: skip
_JOB = ("job_type", "maxtrans", "maxscans", "continuous", "pollinginterval", "retention", "threshold")
ORDER = {
    "sp_cdc_enable_table": (
        "source_schema", "source_name", "role_name", "capture_instance", "supports_net_changes", "index_name",
        "captured_column_list", "filegroup_name", "allow_partition_switch",
    ),
    "sp_cdc_disable_table": ("source_schema", "source_name", "capture_instance"),
    "sp_cdc_cleanup_change_table": ("capture_instance", "low_water_mark", "threshold"),
    "sp_cdc_change_job": _JOB, "sp_cdc_add_job": ("job_type", "start_job", *_JOB[1:]), "sp_cdc_drop_job": ("job_type",),
    "sp_cdc_start_job": ("job_type",), "sp_cdc_stop_job": ("job_type",),
    "sp_cdc_help_change_data_capture": ("source_schema", "source_name"),
}  # fmt: skip
