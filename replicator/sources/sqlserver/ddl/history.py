"""What cdc.ddl_history tells of statements on captured tables
(learn.microsoft.com/sql/relational-databases/system-tables/cdc-ddl-history-transact-sql).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.dialect import binary

_UNSEEN = re.compile(r"\bSWITCH\b|\bCOLLATE\b", re.IGNORECASE)
MAX_SHOWN = 4000


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement on the table `source` (object_id), at its place of the log."""

    source: int
    text: str
    lsn: bytes

    @property
    def changes_rows(self) -> bool:
        """May it have moved a partition in or out, or put texts into another code page?  The log shows neither."""
        return _UNSEEN.search(self.text) is not None


def statements_after(connection: SqlServerSession, lsn: bytes) -> list[Statement]:
    """In log order."""
    rows = connection.rows(
        "SELECT DISTINCT source_object_id, ddl_command, ddl_lsn FROM cdc.ddl_history "
        f"WHERE ddl_lsn > {binary(lsn)} ORDER BY ddl_lsn",
        connection.where,
    )
    return [Statement(int(row[0]), str(row[1])[:MAX_SHOWN], bytes(row[2])) for row in rows if row[0] is not None]
