"""Checks of the server's binary log settings."""

from __future__ import annotations

from datetime import UTC, datetime

from replicator.errors import TidemarkError
from replicator.sources.mysql.check.server_info import Server
from replicator.sources.mysql.config import MAX_SERVER_ID
from replicator.sources.shared.check_runner import CheckFinding, failed, ok, warning

_DAY = 24 * 3600
_GIB = 1 << 30
_MAX_SKEW = 5.0
_CLOUD = "On Amazon RDS, Aurora, Cloud SQL and Azure this is set in the parameter group, see the guide."


def log_bin(server: Server) -> CheckFinding:
    """Without the log there is nothing to follow."""
    if server.value("log_bin") in ("on", "1"):
        return ok("The binary log is enabled.")
    return failed("The binary log is disabled.", f"In my.cnf: [mysqld] log_bin = mysql-bin; then restart. {_CLOUD}")


class Setting:
    """A check that a global variable has one value."""

    def __init__(self, name: str, wanted: str, reason: str) -> None:
        self._name, self._wanted, self._reason = name, wanted, reason

    def __call__(self, server: Server) -> CheckFinding:
        value = server.variables.get(self._name)
        if value is None:
            return failed(f"The server has no {self._name}: {self._reason}", "Use MySQL 8.0 or MariaDB 10.6, or later.")
        if value.upper() == self._wanted:
            return ok(f"{self._name} is {self._wanted}.")
        return failed(
            f"{self._name} is {value}: {self._reason}",
            f"SET GLOBAL {self._name} = '{self._wanted}'; (and in my.cnf; sessions that are open keep the old value)"
            f" {_CLOUD}",
        )


binlog_format = Setting("binlog_format", "ROW", "the log contains statements instead of rows.")
binlog_row_image = Setting("binlog_row_image", "FULL", "the log omits columns.")
binlog_row_metadata = Setting("binlog_row_metadata", "FULL", "the log lacks column names, signedness and enum labels.")


def server_id(server: Server) -> CheckFinding:
    """The source needs an id, and a replica's id must be its own."""
    source = int(server.value("server_id") or 0)
    ours = server.config.server_id
    if source == 0:
        return failed("The source's server_id is 0.", "SET GLOBAL server_id = 1; (and in my.cnf)")
    if ours == source:
        return failed(
            f"The connection's server id {ours} is also the source's server id.",
            f"Choose another from 1 to {MAX_SERVER_ID} in the connection, or leave it empty.",
        )
    if ours is not None and ours in _replicas(server):
        return warning(
            f"A replica with server id {ours} is connected. If that is not Tidemark itself, one of the two connections"
            " will be closed.",
            "Choose another server id in the connection, or leave it empty.",
        )
    return ok(f"The source's is {source}; Tidemark's is {'derived from the replicator' if ours is None else ours}.")


def _replicas(server: Server) -> set[int]:
    for statement in ("SHOW REPLICAS", "SHOW SLAVE HOSTS"):
        try:
            return {int(str(row[0])) for row in server.rows(statement)}
        except TidemarkError:
            continue  # another version's spelling, or not granted
    return set()


def gtid(server: Server) -> CheckFinding:
    """With GTIDs a replicator can move to another server of the topology."""
    if server.mariadb:
        return ok("MariaDB always writes GTIDs.")
    if server.value("gtid_mode") == "on":
        return ok("gtid_mode is ON.")
    return warning(
        "gtid_mode is not ON. After a failover of the source all tables must be resnapshotted.",
        "SET GLOBAL enforce_gtid_consistency = ON; then gtid_mode = OFF_PERMISSIVE, ON_PERMISSIVE, ON, one after the"
        " other.",
    )


def retention(server: Server) -> CheckFinding:
    """Check how long Tidemark may be stopped before the log it needs is purged."""
    hours = _rds_hours(server)
    if hours is not None and hours * 3600 < _DAY:
        return warning(
            f"Amazon RDS retains the log for {hours} hours.",
            "CALL mysql.rds_set_configuration('binlog retention hours', 72);",
        )
    seconds = float(server.value("binlog_expire_logs_seconds") or 0)
    seconds = seconds or float(server.value("expire_logs_days") or 0) * _DAY
    total = int(server.value("max_binlog_total_size") or 0)
    if 0 < seconds < _DAY and server.value("binlog_expire_logs_auto_purge") != "off":
        remedy = "SET GLOBAL binlog_expire_logs_seconds = 259200; (and in my.cnf)"
        return warning(f"The log is retained for only {seconds / 3600:.1f} hours.", remedy)
    if 0 < total < _GIB:
        remedy = f"SET GLOBAL max_binlog_total_size = {10 * _GIB}; (and in my.cnf)"
        return warning(f"The log is limited to {total} bytes regardless of age.", remedy)
    kept = f"{seconds / _DAY:.1f} days" if seconds else "until it is purged manually"
    return ok(f"The log is retained for {kept}." if seconds else f"The log is retained {kept}.")


def _rds_hours(server: Server) -> float | None:
    """The setting of Amazon RDS; 0 where it is not set there, None anywhere else."""
    if "rds" not in server.value("basedir") and "aurora_version" not in server.variables:
        return None
    try:
        rows = server.rows("SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'")
    except TidemarkError:
        return None
    return float(str(rows[0][0] or 0)) if rows else 0.0


def binlog_order_commits(server: Server) -> CheckFinding:
    """Snapshots rely on it: what the log has before a mark is visible to what is read after it."""
    if server.mariadb or server.value("binlog_order_commits") in ("on", "1", ""):
        return ok("Transactions become visible in log order.")
    remedy = "SET GLOBAL binlog_order_commits = ON; (and in my.cnf)"
    return failed("binlog_order_commits is OFF: a snapshot could miss a change.", remedy)


def compression(server: Server) -> CheckFinding:
    """Both kinds are read; said because it costs time."""
    name = "log_bin_compress" if server.mariadb else "binlog_transaction_compression"
    if server.value(name) in ("on", "1"):
        return ok(f"The log is compressed ({name}); Tidemark reads that.")
    return ok("The log is not compressed.")


def lower_case_table_names(server: Server) -> CheckFinding:
    """Which names mean the same table; fixed for good when a server's data folder is made."""
    value = server.value("lower_case_table_names")
    if server.names.folds:
        return ok(f"lower_case_table_names is {value}: Shop.Orders and shop.orders are one table, shown in lower case.")
    return ok(f"lower_case_table_names is {value}: Shop.Orders and shop.orders are two tables.")


def log_filters(server: Server) -> CheckFinding:
    """Databases that the server keeps out of its log."""
    rows: list[tuple[object, ...]] = []
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            rows = server.rows(statement)
            break
        except TidemarkError:
            continue
    only, never = (str(rows[0][2] or ""), str(rows[0][3] or "")) if rows else ("", "")
    if not (only or never):
        return ok("The log contains all databases.")
    detail = f"The log contains only the databases {only}." if only else f"The log excludes the databases {never}."
    database = server.config.watermark_database
    remedy = (
        f"Remove binlog_do_db and binlog_ignore_db from my.cnf, or make sure that {database} and the tables are logged."
    )
    return warning(detail, remedy)


def replica_updates(server: Server) -> CheckFinding:
    """Check that a replica logs the changes that it replicates from its own source."""
    on = (server.value("log_replica_updates") or server.value("log_slave_updates")) in ("on", "1")
    if on:
        return ok("Changes that the server replicates are logged.")
    for statement in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        try:
            if server.rows(statement):
                remedy = (
                    "In my.cnf: log_slave_updates = ON (log_replica_updates on MySQL 8.0.26 and later); then restart."
                )
                return failed("The server is a replica and does not log what it replicates.", remedy)
            break
        except TidemarkError:
            continue
    return ok("The server is not a replica.")


def clock(server: Server) -> CheckFinding:
    """Lag is the difference of two clocks."""
    before = datetime.now(UTC)
    source = server.rows("SELECT UTC_TIMESTAMP(6)")[0][0]
    after = datetime.now(UTC)
    if not isinstance(source, datetime):
        return warning(f"The source says that it is {source} now.")
    skew = (source.replace(tzinfo=UTC) - (before + (after - before) / 2)).total_seconds()
    if abs(skew) <= _MAX_SKEW:
        return ok(f"The source's clock differs from ours by {abs(skew):.1f} s.")
    side = "ahead of" if skew > 0 else "behind"
    return warning(
        f"The source's clock is {abs(skew):.1f} s {side} ours, so lag is shown incorrectly.", "Synchronise both by NTP."
    )
