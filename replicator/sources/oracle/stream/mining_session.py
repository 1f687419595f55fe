"""A session of LogMiner: files of the log, a range of SCNs, rows of V$LOGMNR_CONTENTS.

Sources: Oracle Database PL/SQL Packages and Types Reference, "DBMS_LOGMNR"; Oracle Database Reference,
"V$LOGMNR_CONTENTS".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC
from functools import partial
from typing import Any

from replicator.errors import LogPurged, SourceUnreachable
from replicator.sources.oracle.config import Committed, Logs, OracleConfig
from replicator.sources.oracle.connection import Connection, cancel, close, connect, read_rows, translated
from replicator.sources.oracle.container import oldest_transaction
from replicator.sources.oracle.dialect import literal
from replicator.sources.oracle.stream.log_files import LogRange, log_ends, log_range, written_by_all
from replicator.sources.oracle.stream.redo_frame import (
    COLUMNS,
    COMMIT,
    DDL,
    LOBS,
    MISSING,
    ROLLBACK,
    START,
    UNSUPPORTED,
    RedoFrame,
    frames,
)

FETCH_ROWS = 5_000
UNKNOWN = "UNKNOWN"  # the owner of a table that the online catalog does not know as it was
_OPTIONS = ("DICT_FROM_ONLINE_CATALOG", "NO_ROWID_IN_STMT", "NO_SQL_DELIMITER")
_ROWS = (1, 2, 3, DDL, MISSING, UNSUPPORTED)
_ENDS = (START, COMMIT, ROLLBACK)
_NOW = "SELECT current_scn, SYS_EXTRACT_UTC(SYSTIMESTAMP), SYSDATE FROM v$database"


class MiningSession:
    """A connection to the root; one thread."""

    def __init__(self, config: OracleConfig) -> None:
        self._config, self._where = config, config.where
        self.connection: Connection = connect(config, root=True)
        self._mining = False
        self._again: Callable[[], LogRange | None] = lambda: None
        self._thread = threading.get_ident()

    def position(self) -> tuple[int, int, int, int]:
        """(SCN now, SCN at which the oldest open transaction began, microseconds since 1970 now, and by which the
        server's clock is ahead of UTC)

        The oldest is looked for first: what begins later begins at the SCN of the look or after it.  Raises as
        `oldest_transaction` does.
        """
        before = int(read_rows(self.connection, _NOW, self._where)[0][0])
        oldest = oldest_transaction(self.connection, self._config)
        scn, utc, local = read_rows(self.connection, _NOW, self._where)[0]
        ahead = round((local - utc.replace(tzinfo=None)).total_seconds() / 900) * 900
        now = int(utc.replace(tzinfo=UTC).timestamp() * 1_000_000)
        return int(scn), min(before, oldest) if oldest else before, now, ahead * 1_000_000

    def written(self) -> list[tuple[Any, ...]]:
        """As `log_ends` has it."""
        return log_ends(self.connection, self._where)

    def range(
        self, low: int, end: int, written: Sequence[tuple[Any, ...]], *, opened: int, prior: int
    ) -> LogRange | None:
        """What of these SCNs can be read now.  LogPurged.

        opened: RESETLOGS_CHANGE# of the database's incarnation; prior: of the one before, whose logs end there.
        """
        old = low < opened
        end = min(end, opened - 1) if old else written_by_all(self.connection, written, end, self._where)
        self._again = partial(
            log_range, self.connection, low, end, self._where, prior if old else opened,
            archived=old or self._config.logs is Logs.ARCHIVED, ended=old,
        )  # fmt: skip
        return self._again()

    def mine(self, found: LogRange, owners: Collection[str], after: int) -> Iterator[RedoFrame]:
        """Rows of these owners' tables, of unknown ones and of those that end transactions; of transactions that were
        committed after `after`, where LogMiner keeps the others back.

        LogPurged where a file is gone; SourceUnreachable where one was overwritten while it was read.
        """
        self.stop()
        try:
            self._start(found)
            with translated(self._where):
                batches = self.connection.fetch_df_batches(
                    self._query(owners, after), size=FETCH_ROWS, fetch_decimals=True
                )
                iterator = iter(batches)
            mined = frames(_translated(iterator, self._where))
            yield from mined
        except LogPurged as error:
            self.stop()
            self._again()  # is it?
            raise SourceUnreachable(f"{error.message} (A log was switched meanwhile.)") from None
        self.stop()

    def _start(self, found: LogRange) -> None:
        adds = " ".join(
            f"DBMS_LOGMNR.ADD_LOGFILE(LOGFILENAME => {literal(one.name)}, OPTIONS =>"
            f" DBMS_LOGMNR.{'ADDFILE' if place else 'NEW'});"
            for place, one in enumerate(found.files)
        )
        options = [*_OPTIONS, *["COMMITTED_DATA_ONLY"] * (self._config.committed is Committed.SERVER)]
        summed = " + ".join(f"DBMS_LOGMNR.{one}" for one in options)
        start = f"DBMS_LOGMNR.START_LOGMNR(STARTSCN => {found.low}, ENDSCN => {found.end}, OPTIONS => {summed});"
        self._call(f"BEGIN {adds} {start} END;")
        self._mining = True

    def _query(self, owners: Collection[str], after: int) -> str:
        listed = ", ".join(literal(one) for one in sorted({*owners, UNKNOWN}))
        wanted = [*_ROWS, *LOBS] if self._config.lobs else _ROWS
        rows = f"m.operation_code IN ({', '.join(map(str, wanted))}) AND m.seg_owner IN ({listed})"
        if self._config.pdb:
            rows += f" AND m.src_con_name = {literal(self._config.pdb)}"
        if self._config.committed is Committed.SERVER:
            return f"SELECT {COLUMNS} FROM v$logmnr_contents m WHERE {rows} AND m.commit_scn > {after}"
        ends = ", ".join(map(str, _ENDS))
        return f"SELECT {COLUMNS} FROM v$logmnr_contents m WHERE m.operation_code IN ({ends}) OR ({rows})"

    def stop(self) -> None:
        """Gives the server its memory back; an error there is none here: the session ends."""
        if self._mining:
            self._mining = False
            with suppress(SourceUnreachable, LogPurged):
                self._call("BEGIN DBMS_LOGMNR.END_LOGMNR; END;")

    def close(self) -> None:
        """The connection, too.  By another thread: what it waits for ends with an error there."""
        if threading.get_ident() != self._thread:
            cancel(self.connection)
        close(self.connection)

    def _call(self, block: str) -> None:
        with translated(self._where), self.connection.cursor() as cursor:
            cursor.execute(block)


def _translated(batches: Iterator[object], where: str) -> Iterator[object]:
    while True:
        with translated(where):
            one = next(batches, None)
        if one is None:
            return
        yield one
