"""Where the binary log ends now."""

from __future__ import annotations

from replicator.errors import SourceMisconfigured, SourceUnreachable
from replicator.sources.mysql.connection import Connection
from replicator.sources.mysql.snapshot.result_stream import read_rows


def log_end(connection: Connection, where: str) -> tuple[str, int, str]:
    """File, position and, on MySQL, the executed GTID set.  SourceMisconfigured where binary logging is off."""
    rows = []
    # MySQL 8.2 renamed the statement and 8.4 dropped the old name; MariaDB 10.5.2 has a third.
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            rows = read_rows(connection, statement, where)
            break
        except SourceUnreachable as error:
            if "error 1064" not in error.message:
                raise
    if not rows:
        message = "The binary log is disabled."
        raise SourceMisconfigured(message)
    file, position, _, _, *executed = rows[0]
    return str(file), int(position), "".join(str(executed[0]).split()) if executed else ""  # folded by lines
