"""What the parts of the transaction assembler see of it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from replicator.model.change import LogMessage
from replicator.model.table_set import NameRule
from replicator.sources.mysql.offset import BinlogOffset, GtidPosition
from replicator.sources.mysql.stream.row_buffer import Pending
from replicator.sources.mysql.stream.schema_tracker import LogSchemas, Resolved
from replicator.sources.mysql.stream.xa_transactions import Decided, PreparedTransactions
from replicator.sources.mysql.wire.events import BinlogEvent


class Assembly(Protocol):
    """The transaction under way, and what was made of those before.

    out: messages for the reader; pending: rows that are not in `out` yet; commit_us: microseconds since 1970.
    """

    names: NameRule
    out: list[LogMessage]
    schemas: LogSchemas
    pending: Pending
    xa: PreparedTransactions
    mariadb: bool
    signs_years: bool | None
    in_transaction: bool
    idle: bool
    gtid: GtidPosition
    txn: str
    commit_us: int

    @property
    def boundary(self) -> BinlogOffset:
        """Reading can resume here and miss nothing."""

    @property
    def commit_ts(self) -> datetime:
        """Commit time of the transaction under way."""

    def flush(self) -> None:
        """Hand on all rows."""

    def stamp(self, event: BinlogEvent) -> None:
        """Something of the transaction stands in the log from this event on."""

    def begin(self, event: BinlogEvent) -> None:
        """A transaction begins."""

    def end(self, event: BinlogEvent) -> None:
        """It is committed."""

    def rollback(self, event: BinlogEvent) -> None:
        """Abandon the transaction."""

    def begin_xa(self, event: BinlogEvent) -> None:
        """The transaction is an XA transaction's first phase."""

    def decide(self, event: BinlogEvent, decided: Decided) -> None:
        """An XA transaction's second phase: its rows come now."""

    def unannounced(self, resolved: Resolved, event: BinlogEvent) -> None:
        """A TABLE_MAP shows a schema that no statement explained."""
