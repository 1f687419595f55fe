"""Checks of what the server writes into its log, keeps of it, and gives to a reader."""

from __future__ import annotations

from datetime import UTC, datetime

from replicator.sources.postgres.blocking_transactions import Holder, endings, listed, writing
from replicator.sources.postgres.check.server_info import Server, Service
from replicator.sources.postgres.connection import literal
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning

_MAX_SKEW = 5.0
_MIN_SENDER_TIMEOUT = 10_000  # ms; feedback is sent every few seconds
_LARGE = 1 << 30
_OLD = 60  # seconds
_SHOWN = 5
_LOGICAL = {
    Service.OWN: "ALTER SYSTEM SET wal_level = logical; then restart the server.",
    Service.RDS: (
        "Set rds.logical_replication = 1 in the (cluster) parameter group, then restart the (writer) instance."
    ),
    Service.CLOUD_SQL: "Set the flag cloudsql.logical_decoding = on; the instance restarts.",
    Service.AZURE: "Set the server parameter wal_level = logical, then restart the server.",
    Service.SUPABASE: "Logical replication is on by default; ask the service to set wal_level = logical.",
    Service.NEON: "Turn on logical replication in the project's settings.",
    Service.YUGABYTE: "Set the flag ysql_yb_enable_replication_slot_consumption of the tservers.",
}
_IN_GROUP = "On a managed service this is set among the server's parameters, see the guide."


def primary(server: Server) -> CheckFinding:
    """A standby can be written no marks, and makes no publication."""
    if server.rows("SELECT pg_catalog.pg_is_in_recovery()")[0][0]:
        return failed(
            "The server is a standby.", "Connect to the primary server (of a cluster: to its writer endpoint)."
        )
    return ok("The server is a primary.")


def wal_level(server: Server) -> CheckFinding:
    """Below `logical` the log does not say which rows changed."""
    value = server.value("wal_level")
    if value == "logical":
        return ok("wal_level is logical.")
    return failed(f"wal_level is {value}: the log does not contain rows.", _LOGICAL[server.service])


def free_slots(server: Server) -> CheckFinding:
    """A replicator takes one slot and one WAL sender, which share a limit with standbys and backups."""
    slots, own, senders = server.rows(
        "SELECT (SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots), "
        "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots WHERE slot_name LIKE 'tidemark\\_%'), "
        "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication)"
    )[0]
    most_slots, most_senders = server.number("max_replication_slots"), server.number("max_wal_senders")
    said = (
        f"{slots} of {most_slots} replication slots ({own} of Tidemark) and {senders} of {most_senders} WAL senders are"
        " in use."
    )
    if (slots >= most_slots and not server.config.slot) or senders >= most_senders:
        remedy = (
            f"ALTER SYSTEM SET max_replication_slots = {max(most_slots, slots) + 10}; "
            f"ALTER SYSTEM SET max_wal_senders = {max(most_senders, senders) + 10}; then restart. {_IN_GROUP}"
        )
        return failed(said, remedy)
    return ok(said)


def own_slot(server: Server) -> CheckFinding:
    """A slot that the user has brought."""
    name = server.config.slot
    if not name:
        return ok("Each replicator gets its own slot.")
    create = f"SELECT pg_create_logical_replication_slot({literal(name)}, 'pgoutput');"
    prepares = "two_phase" if server.version >= 140000 else "false"  # noqa: PLR2004
    rows = server.rows(
        f"SELECT plugin::text, database::text, active, wal_status, pg_catalog.current_database()::text, {prepares} "
        f"FROM pg_catalog.pg_replication_slots WHERE slot_name = {literal(name)}"
    )
    if not rows:
        return failed(f"No replication slot {name}.", create)
    plugin, database, active, status, here, prepares = rows[0]
    wrong = ""
    if plugin != "pgoutput" or database != here:
        what = f"is for the plugin {plugin} in the database {database or 'none'}"
        wrong = f"{what}: pgoutput in {here} is needed."
    elif prepares:
        wrong = "gives prepared transactions before they are committed (two_phase)."
    elif status == "lost":
        wrong = "has lost its WAL."
    if wrong:
        return failed(f"The slot {name} {wrong}", f"SELECT pg_drop_replication_slot({literal(name)}); {create}")
    if active:
        return warning(f"The slot {name} is in use by another reader.", "Stop the other reader.")
    return ok(f"The slot {name} exists.")


def retention(server: Server) -> CheckFinding:
    """Check how much WAL may be retained for a replicator that is stopped."""
    limit = server.number("max_slot_wal_keep_size", -1)
    idle = server.number("idle_replication_slot_timeout")
    ours = server.config.retention_limit_mb
    if idle:
        return warning(
            f"A slot that is not read for {idle} s is invalidated by the server. All tables must then be"
            " resnapshotted.",
            f"ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf(); {_IN_GROUP}",
        )
    if limit >= 0 and (ours is None or ours >= limit):
        return warning(
            f"The server invalidates a slot that retains more than {limit} MB of WAL. All tables must then be"
            " resnapshotted.",
            "ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf(); or set a smaller limit in the"
            f" connection. {_IN_GROUP}",
        )
    if ours is None:
        return ok("WAL is retained without limit. While the replicator is stopped, the source's disk fills.")
    return ok(f"Tidemark drops its slot when it retains more than {ours} MB of WAL.")


def sender_timeout(server: Server) -> CheckFinding:
    """Within it the reader has to be heard of."""
    value = server.number("wal_sender_timeout")
    if 0 < value < _MIN_SENDER_TIMEOUT:
        remedy = f"ALTER SYSTEM SET wal_sender_timeout = '60s'; SELECT pg_reload_conf(); {_IN_GROUP}"
        return warning(f"wal_sender_timeout is {value} ms, so a short pause closes the connection.", remedy)
    return ok(f"wal_sender_timeout is {value // 1000} s." if value else "The server has no timeout for its readers.")


def other_slots(server: Server) -> CheckFinding:
    """Check for idle slots that retain WAL, Tidemark's and others."""
    rows = server.rows(
        "SELECT slot_name::text, pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_lsn(), restart_lsn)::int8 "
        "FROM pg_catalog.pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 2 DESC"
    )
    if not rows:
        return ok("No idle replication slot retains WAL.")
    said = ", ".join(f"{name} ({size / (1 << 20):.0f} MB)" for name, size in rows[:_SHOWN])
    if rows[0][1] < _LARGE:
        return ok(f"Idle replication slots that retain WAL: {said}.")
    return warning(
        f"Idle replication slots retain much WAL: {said}.",
        f"If it is not needed: SELECT pg_drop_replication_slot({literal(rows[0][0])});",
    )


def decoding_memory(server: Server) -> CheckFinding:
    """Beyond it a transaction is streamed (14 and later) or spilled to the server's disk."""
    size = server.number("logical_decoding_work_mem", 65536)
    how = "streamed to Tidemark" if server.version >= 140000 else "spilled to the server's disk"  # noqa: PLR2004
    return ok(f"Transactions of more than {size // 1024} MB are {how} (logical_decoding_work_mem).")


def prepared(server: Server) -> CheckFinding:
    """Changes of a prepared transaction come with its COMMIT PREPARED; an old one, of any database, holds WAL and slots
    up.
    """
    old = [one for one in _open(server) if one.gid is not None]
    if old:
        said = f"A new slot has to wait for prepared transactions: {listed(old)}."
        return warning(said, endings(old))
    return ok("No prepared transactions are open. Future ones are replicated at their COMMIT PREPARED.")


def open_transactions(server: Server) -> CheckFinding:
    """A new slot begins when every transaction that writes just now, in any database, has ended."""
    old = [one for one in _open(server) if one.gid is None]
    if not old:
        return ok("No long-running write transactions.")
    said = f"A replicator cannot start before these write transactions end: {listed(old)}."
    return warning(said, endings(old))


def _open(server: Server) -> list[Holder]:
    return [one for one in writing(server.connection, server.config.where) if (one.seconds or 0) >= _OLD]


def standby(server: Server) -> CheckFinding:
    """Where a synchronous standby is away, commits wait for it; a failover takes the slot along from 17."""
    names = server.value("synchronous_standby_names")
    kept = server.value("synchronized_standby_slots")
    if names:
        return ok(f"Commits wait for the standbys {names}; Tidemark's watermarks do not.")
    if kept:
        return ok(f"The log is given out once the standbys {kept} have it.")
    return ok("No synchronous standby.")


def clock(server: Server) -> CheckFinding:
    """Lag is the difference of two clocks."""
    before = datetime.now(UTC)
    source: datetime = server.rows("SELECT pg_catalog.clock_timestamp()")[0][0]
    after = datetime.now(UTC)
    skew = (source - (before + (after - before) / 2)).total_seconds()
    if abs(skew) <= _MAX_SKEW:
        return ok(f"The source's clock differs from ours by {abs(skew):.1f} s.")
    side = "ahead of" if skew > 0 else "behind"
    return warning(
        f"The source's clock is {abs(skew):.1f} s {side} ours, so lag is shown incorrectly.", "Synchronise both by NTP."
    )
