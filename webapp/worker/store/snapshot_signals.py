"""Execution of the source's signals, in the transaction of the checkpoint behind them: once, even if capture fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from django.db import DatabaseError, transaction

from replicator.engine.reporting import Level
from replicator.errors import ConfigurationError, TidemarkError
from replicator.snapshot.signals import Act, SnapshotSignal, parse_signal
from replicator.state.journal import Signal
from webapp.database import without_nul
from webapp.monitoring.models import Stage
from webapp.monitoring.services import note
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.services import partial_snapshots
from webapp.replicators.services.tables import resnapshot_table
from webapp.worker.run import wiring

LOGGER = logging.getLogger("tidemark.worker")
NAMED = 5  # tables in a sentence


def apply_signals(replicator_id: int, signals: Iterable[Signal]) -> None:
    """Execute signals; an invalid one is noted on the timeline and in the log, and is not a failure."""
    replicator = Replicator.objects.select_related("connection", "destination").get(pk=replicator_id)
    for signal in signals:
        name = without_nul(f"Signal {signal.id[:100]}")
        try:
            with transaction.atomic():
                said = _obeyed(replicator, signal)
        except TidemarkError as error:
            _refused(replicator, f"{name} is rejected: {error.message} {error.remedy}")
        except DatabaseError:
            raise  # the journal's own trouble: capture reads the signal again
        except Exception:
            LOGGER.exception("Unexpected error with a signal of %s", replicator.name)
            _refused(replicator, f"{name} is rejected: it is invalid.")
        else:
            note(replicator=replicator, kind="signal", summary=without_nul(f"{name}: {said}"))


def _refused(replicator: Replicator, text: str) -> None:
    message = without_nul(text)
    note(replicator=replicator, kind="signal_refused", summary=message)
    report = wiring.reporter(replicator, Stage.CAPTURE)
    transaction.on_commit(lambda: report.log(Level.WARNING, message), robust=True)


def _obeyed(replicator: Replicator, signal: Signal) -> str:
    """What was done, in words.  Raises ConfigurationError; then nothing was."""
    asked = parse_signal(signal)
    rows = ReplicatorTable.objects.filter(replicator=replicator).select_related(
        "replicator__connection", "replicator__destination"
    )
    tables = [row for row in rows.order_by("id") if asked.wants(row.table_id)]
    if not tables:
        message = f"{replicator.name} has none of the tables {', '.join(asked.tables or ())}."
        raise ConfigurationError(message, remedy="Name tables as database.table, or by a pattern (*, ?).")
    if asked.act is Act.EXECUTE:
        return _executed(tables, asked, without_nul(f"requested by signal {signal.id}")[:200])
    acts: dict[Act, Callable[[ReplicatorTable], int]] = {
        Act.STOP: lambda table: partial_snapshots.stop_snapshots(table=table),
        Act.PAUSE: lambda table: partial_snapshots.set_paused(table=table, paused=True),
        Act.RESUME: lambda table: partial_snapshots.set_paused(table=table, paused=False),
    }
    words = {Act.STOP: "stopped", Act.PAUSE: "paused", Act.RESUME: "resumed"}
    number = sum(acts[asked.act](table) for table in tables)
    return f"{number or 'no'} snapshot{'' if number == 1 else 's'} {words[asked.act]}."


def _executed(tables: list[ReplicatorTable], asked: SnapshotSignal, reason: str) -> str:
    """The source is not asked before: a condition that it does not take ends its snapshot when it is read."""
    if asked.keys is not None:
        if len(tables) != 1:
            message = f"Keys apply to one table; {', '.join(map(str, tables[:NAMED]))} are named."
            raise ConfigurationError(message, remedy="Insert a signal for each table.")
        keys = asked.keys if isinstance(asked.keys, str) else list(asked.keys)
        return f"{partial_snapshots.read_keys(table=tables[0], keys=keys, reason=reason, tried=False).what} are read."
    for table in tables:
        if condition := asked.condition(table.table_id):
            partial_snapshots.read_rows(table=table, condition=condition, reason=reason, tried=False)
        else:
            resnapshot_table(table=table, reason=reason)
    more = f" and {len(tables) - NAMED} more" if len(tables) > NAMED else ""
    return f"{', '.join(map(str, tables[:NAMED]))}{more} {'is' if len(tables) == 1 else 'are'} read."
