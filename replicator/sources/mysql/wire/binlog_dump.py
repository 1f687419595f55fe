"""The stream of a server's binary log, begun by mysql-replication.  Its packets are ours to read (packet_stream).

This file is the only one that knows that library.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from pymysqlreplication import BinLogStreamReader

from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import Connection, connect, translated

# Set for any checksum algorithm of the server's files: the library sets them only if the present one has checksums.
_CHECKSUMS = (
    "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum"
)


class _DumpSent(Exception):
    """The library has sent the command and read nothing of the answer."""


def begin_dump(
    config: MySqlConfig,
    server_id: int,
    file: str,
    position: int,
    *,
    gtid: str = "",
    mariadb: bool = False,
    follow: bool,
) -> Connection:
    """A connection over which the server sends its log: from behind `gtid`, else from `file` and `position` on.

    `follow`: it is registered as a replica's, and the server waits where the log ends, with a heartbeat each second;
    else the server ends the stream there.  The caller closes it.  Raises as `connect`.

    `BinLogStreamReader.fetchone` connects and sends the command.  Before it reads the first packet it asks its
    `pymysql_wrapper` for a second connection, for the names of columns: its part ends there.
    """
    opened: list[Connection] = []

    def connection_for(*, names: bool = False, **_: Any) -> Connection:
        if names:
            raise _DumpSent
        opened.append(connect(config))
        with opened[-1].cursor() as cursor:
            cursor.execute(_CHECKSUMS)
        return opened[-1]

    library = BinLogStreamReader(
        connection_settings={},
        ctl_connection_settings={"names": True},
        server_id=server_id,
        resume_stream=True,
        blocking=follow,
        log_file=file,
        log_pos=position,
        auto_position=gtid or None,
        is_mariadb=mariadb and bool(gtid),
        report_slave="tidemark" if follow else None,
        slave_heartbeat=1 if follow else None,
        enable_logging=False,
        pymysql_wrapper=connection_for,
    )
    try:
        with translated(f"{config.host}:{config.port}"), suppress(_DumpSent):
            library.fetchone()
    except BaseException:
        for connection in opened:
            connection.close()
        raise
    [connection] = opened
    return connection
