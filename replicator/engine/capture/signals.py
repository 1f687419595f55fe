"""The signalling table in the log: its rows go to the journal with the checkpoint behind them, and so once."""

from __future__ import annotations

from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.reporting import Level, Reporter
from replicator.errors import ConfigurationError, TidemarkError
from replicator.model.change import ChangeBatch, SchemaChange, TableFailed, UndecodableRows
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.snapshot.signals import signals_in
from replicator.sources.base import Catalog
from replicator.state.journal import CapturePlan


class Signals:
    """Collects the signals of one capture.  Any trouble with the signalling table is a warning and stops nothing."""

    def __init__(self, plan: CapturePlan, catalog: Catalog, entry: JournalEntryBuilder, report: Reporter) -> None:
        """`entry` is the capture's."""
        self._table, self._entry, self._report = plan.signals, entry, report
        self._selected = plan.signals is not None and plan.signals in plan.tables
        self._catalog = catalog

    def schemas(self) -> dict[TableId, TableSchema]:
        """What the log's reader has to know beside the tables that are followed anyway."""
        if self._table is None or self._selected:
            return {}
        try:
            found = self._catalog.describe([self._table]).get(self._table)
        except TidemarkError as error:
            found = None
            self._warn(error.message)
        if not isinstance(found, TableSchema):
            self._warn(found.message if found is not None else "it does not exist.")
            return {}
        return {self._table: found}

    def takes(self, message: ChangeBatch | SchemaChange | TableFailed | UndecodableRows) -> bool:
        """Signals are taken from the message; True where it is of no further interest, because the table is not
        selected.
        """
        if message.table != self._table:
            return False
        if isinstance(message, ChangeBatch):
            self._collect(message)
        if self._selected:
            return False
        if isinstance(message, ChangeBatch):
            self._entry.skip(message)
        elif isinstance(message, SchemaChange):
            self._entry.reached(message.ordinal + self._entry.shift)
        elif isinstance(message, UndecodableRows):
            self._entry.reached(message.rows[-1].ordinal + self._entry.shift)
            self._warn(message.rows[0].error.message)
        else:
            self._warn(message.error.message)
        return True

    def _collect(self, batch: ChangeBatch) -> None:
        try:
            found = signals_in(batch.data)
        except ConfigurationError as error:
            self._warn(f"{error.message} {error.remedy}")
            return
        for signal in found:
            self._report.log(Level.INFO, f"Signal {signal.id}: {signal.type}", table=self._table)
        self._entry.signals += found

    def _warn(self, reason: str) -> None:
        self._report.log(Level.WARNING, f"The signalling table {self._table} cannot be read: {reason}")
