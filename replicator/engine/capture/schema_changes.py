"""DDL met in the log: numbered, decided, journaled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from replicator.engine.capture.ddl import Decision, decide, stopped_by_policy
from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.table_registry import TableRegistry
from replicator.engine.reporting import Level, Reporter
from replicator.faults import reach
from replicator.model.change import ChangeBatch, Ddl, SchemaChange
from replicator.model.identifiers import TableId
from replicator.model.schema import SEQUENCE
from replicator.snapshot.window import Windows
from replicator.staging.writer import SegmentWriter
from replicator.state.journal import DdlAction, DdlSeen, EventKind, Journal, ReloadRequest, TableEvent
from replicator.state.tables import TableState


class SchemaChanges:
    """Turns SchemaChange messages into events, versions, reloads and failures of the entry under way."""

    def __init__(
        self,
        journal: Journal,
        policy: Mapping[str, DdlAction],
        tracking: TableRegistry,
        entry: JournalEntryBuilder,
        writer: SegmentWriter,
        windows: Windows,
        report: Reporter,
    ) -> None:
        """All are those of the capture that owns this."""
        self._journal, self._policy, self._tracking = journal, policy, tracking
        self._entry, self._writer, self._windows, self._report = entry, writer, windows, report

    def handle(self, change: SchemaChange) -> None:
        """Handle one DDL statement; it takes one sequence number regardless of the decision."""
        sequence = change.ordinal + self._entry.shift
        self._entry.reached(sequence)
        if change.moved is not None:
            self._entry.carried.append(change.moved)
        if change.operation in {Ddl.CREATE_DATABASE, Ddl.DROP_DATABASE}:
            self._event(change, sequence, None, {"statement": change.statement})
            self._seen(change, "noted")
            return
        met = self._as_followed(change)
        if met is None:
            return
        change = met
        created = change.operation is Ddl.CREATE_TABLE and not self._tracking.late(change.table)
        ended = change.operation is Ddl.DROP_TABLE and self._tracking.failed(change.table)
        if self._tracking.ignored(change.table) and not (created or ended):
            return
        if self._restates(change):
            return
        decision = decide(change, self._tracking.schema(change.table), self._policy)
        self._writer.cut(change.table)
        self._windows.spoil(change.table, f"{change.operation} while the chunk was read")
        self._report.log(
            Level.INFO, f"{change.operation}: {decision.text}", table=change.table, statement=change.statement
        )
        if decision.action is DdlAction.STOP:
            self._seen(change, decision.text)
            self._entry.failures.append((change.table, stopped_by_policy(change, decision)))
            self._tracking.ignore(change.table)
            return
        self._dispatch(change, sequence, decision)
        reach("capture.schema.handled")

    def _as_followed(self, change: SchemaChange) -> SchemaChange | None:
        """A table that the reader knows and that is not followed here, for its name failed or is followed later only,
        is a new one under another name; None where that is followed later, too.
        """
        table = change.new_table or change.table
        if change.schema is None or change.operation not in {Ddl.ALTER_TABLE, Ddl.RENAME_TABLE}:
            return change
        ignored = self._tracking.ignored(change.table)
        if not (ignored and change.new_table) and (ignored or self._tracking.knows(change.table)):
            return change
        if self._tracking.late(table):
            return None
        return replace(change, operation=Ddl.CREATE_TABLE, table=table, new_table=None, reload=True)

    def _restates(self, change: SchemaChange) -> bool:
        """No statement: the table is as it was, but a restart would take it for another without this."""
        if change.operation is not Ddl.ALTER_TABLE or change.schema is None or change.statement or change.reload:
            return False
        if change.schema != self._tracking.schema(change.table):
            return False
        self._tracking.restate(change.table, change.schema)
        return True

    def _dispatch(self, change: SchemaChange, sequence: int, decision: Decision) -> None:
        match change.operation:
            case Ddl.CREATE_TABLE:
                self._create(change, sequence)
            case Ddl.ALTER_TABLE:
                self._alter(change, sequence, decision)
            case Ddl.TRUNCATE_TABLE:
                self._seen(change, decision.text)
                if decision.action is DdlAction.APPLY:
                    self._event(change, sequence, None, {"statement": change.statement})
            case Ddl.DROP_TABLE:
                detail = {"statement": change.statement, "keep": decision.action is DdlAction.IGNORE}
                self._event(change, sequence, None, detail)
                self._entry.drop(change.table)
                self._tracking.forget(change.table)
            case Ddl.RENAME_TABLE:
                self._rename(change, sequence)

    def _create(self, change: SchemaChange, sequence: int) -> None:
        self._tracking.revive(change.table)
        version = self._tracking.new_version(change.table, change.schema) if change.schema else None
        self._entry.create(change.table)
        self._event(change, sequence, version, {"statement": change.statement})
        if change.reload:
            self._reload(change.table, sequence, fresh=True, reason="it was added to the selection with existing rows")

    def _alter(self, change: SchemaChange, sequence: int, decision: Decision) -> None:
        version, rekeyed = None, self._rekeyed(change)
        if change.schema is not None and change.schema != self._tracking.schema(change.table):
            version = self._tracking.new_version(change.table, change.schema)
            detail = self._alter_detail(change, decision)
            self._event(change, sequence, version, detail)
        else:
            if change.schema is not None:
                self._tracking.restate(change.table, change.schema)
            if change.statement:
                self._seen(change, decision.text)
        keyless = change.schema is not None and not change.schema.key
        reloading = (keyless or rekeyed) and self._journal.state(change.table) is TableState.RELOADING
        loading = self._loading(change.table) or (keyless and reloading)
        if change.reload or ((loading or reloading) and version is not None):
            during = loading or not change.reload
            reason = "a statement changed it during its load" if during else "values of existing rows may have changed"
            self._reload(change.table, sequence, fresh=loading or keyless, reason=reason)

    def _rekeyed(self, change: SchemaChange) -> bool:
        """The key has other columns: bounds that were planned for the one before are none of it."""
        old, new = self._tracking.schema(change.table), change.schema
        if old is None or new is None:
            return False
        return tuple(change.renamed_columns.get(name, name) for name in old.key) != new.key

    @staticmethod
    def _alter_detail(change: SchemaChange, decision: Decision) -> dict[str, Any]:
        return {
            "statement": change.statement,
            "decision": decision.text,
            "renamed_columns": dict(change.renamed_columns),
            "reload": change.reload,
            "keep_dropped": decision.keep_dropped,
        }

    def _rename(self, change: SchemaChange, sequence: int) -> None:
        new = change.new_table
        assert new is not None
        loading = self._loading(change.table)
        self._writer.cut(new)
        detail = {"statement": change.statement, "new": [new.database, new.name]}
        self._event(change, sequence, None, detail)
        self._tracking.rename(change.table, new)
        self._entry.rename(change.table, new)
        if change.schema is not None:
            self._tracking.new_version(new, change.schema)
        if change.reload or loading:
            self._reload(new, sequence, fresh=True, reason="it was renamed during its load")

    def unannounced(self, batch: ChangeBatch) -> None:
        """Rows under a schema that no DDL announced, or of a table that came without one."""
        table = batch.table
        if not self._tracking.knows(table):
            self._tracking.revive(table)
            sequence = self._entry.leap(batch.data.column(SEQUENCE)[0].as_py())
            self._tracking.new_version(table, batch.schema)
            self._reload(table, sequence, fresh=True, reason="it was added to the selection with existing rows")
            return
        self._writer.cut(table)
        self._windows.spoil(table, "its schema changed")
        loading = self._loading(table)
        version = self._tracking.new_version(table, batch.schema)
        sequence = self._entry.leap(batch.data.column(SEQUENCE)[0].as_py())
        detail = {"decision": "the log's own description of the table changed", "reload": True}
        self._entry.events.append(TableEvent(table, sequence, EventKind.ALTER_TABLE, version, detail=detail))
        self._reload(
            table, sequence, fresh=loading or not batch.schema.key, reason="its schema changed without a statement"
        )

    def reread(self, child: TableId, parent: TableId) -> None:
        """Resnapshot `child`: its rows may have changed with rows of `parent`, which the log does not show.

        The load begins behind the last such place: earlier changes of a row in the log do not prove that the row still
        exists.
        """
        if not self._tracking.follows(child):
            return
        schema = self._tracking.schema(child)
        reason = f"rows of {parent} were deleted or changed, and foreign key actions are not in the log"
        fresh = schema is not None and not schema.key
        if self._entry.read_again(ReloadRequest(child, self._entry.next_sequence, fresh, reason, again=True)):
            self._report.log(Level.INFO, f"Resnapshot of {child}: {reason}.", table=child)

    def _seen(self, change: SchemaChange, decision: str) -> None:
        self._entry.seen.append(DdlSeen(change.table, change.operation.value, change.statement, decision))

    def _loading(self, table: TableId) -> bool:
        """Asked of the journal at every DDL: the apply loop ends loads behind capture's back."""
        pending = any(reload.table == table and reload.fresh for reload in self._entry.reloads)
        return pending or self._journal.state(table) in {TableState.WAITING, TableState.LOADING}

    def _reload(self, table: TableId, sequence: int, *, fresh: bool, reason: str) -> None:
        ask_for_reload(self._entry, self._report, ReloadRequest(table, sequence, fresh, reason))

    def _event(self, change: SchemaChange, sequence: int, version: int | None, detail: dict[str, Any]) -> None:
        kind = EventKind(change.operation.value)
        self._entry.events.append(TableEvent(change.table, sequence, kind, version, change.commit_ts, detail))


def ask_for_reload(entry: JournalEntryBuilder, report: Reporter, request: ReloadRequest) -> None:
    """Journal the request with its cause, and log a warning."""
    entry.reloads.append(request)
    report.log(Level.WARNING, f"Resnapshot of {request.table}: {request.reason}.", table=request.table)
    reach("capture.reload.decided")
