"""The apply loop: makes visible in the target what capture journaled.

Each table is applied in sequence order from the position that the target itself holds (invariant 3).  Tables take
turns: a turn covers what was journaled for its table when it began, and begins as soon as there is room for it,
regardless of the other tables' turns.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from replicator.engine.apply.table_applier import TableApplier
from replicator.engine.apply.table_session import TableSession
from replicator.engine.reporting import Reporter
from replicator.engine.wake_event import WakeEvent
from replicator.errors import FenceLost, SparkUnavailable, TargetConflict, TargetError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.state.journal import ApplyStore, ApplyTable
from replicator.state.lease import Lease
from replicator.state.tables import TableState
from replicator.targets.base import Target

POLL_SECONDS = 0.5
# A table whose turn came to nothing although there is something to do for it, and one in whose way another is, wait so
# long.
EMPTY_SECONDS = 0.2
CONFLICT_SECONDS = 5.0
# The loop outlasts a rest of less: its table likely has more to do.  A table that is loaded has no such rest.
SHORT_SECONDS = 1.0
# A table rests twice as long as its turn took, and so long at most: where turns are long the machine has little left,
# and fewer commits that are larger cost it less.
REST_FACTOR, MOST_REST_SECONDS = 2, 1.0
QUEUED = 2  # turns begun for each place, so that none waits for the next look at the journal
PATIENCE_SECONDS = 2.0  # with what is under way, once a stop was asked for (invariant 10)
LATE_SECONDS = 10.0  # for a turn that begins beside one that outlasts the loop's time


@dataclass(frozen=True)
class ApplyOptions:
    """`parallel` tables at a time; at most about `max_rows` changes in one target commit."""

    parallel: int = 3
    max_rows: int = 2_000_000


def run_apply(  # noqa: PLR0913 - the wiring of one loop, all by name
    *,
    target: Target,
    store: ApplyStore,
    lease: Lease,
    keep: Callable[[], bool],
    options: ApplyOptions,
    report: Reporter,
    hurried: Callable[[], bool] | None = None,
    wake: WakeEvent | None = None,
    turned: Callable[[], None] = lambda: None,
    released: Callable[[], None] = lambda: None,
    resting: dict[TableId, float] | None = None,
) -> int:
    """Apply until no table has anything to do or `keep()` is False; return the number of target commits.

    Turns under way by then are finished, however long they take, and other tables have turns beside them.  They are
    interrupted only once `hurried()` (without it: at once).  A table's failure is reported to the store and does not
    stop the others.  FenceLost and SparkUnavailable are raised.  A conflict is a failure only if it lasts: most come
    from the last commit of a worker that lost its lease, or from a name that another table still has.
    wake: set when something was journaled.  `turned` is called after each turn, `released` by each thread when it is
    done with the store (connections are often a thread's own).
    resting: until when (monotonic) tables have no turn; kept from call to call for `Capabilities.commit_seconds`.
    """
    pressed = hurried or (lambda: not keep())

    def attempt(table: ApplyTable, going: Callable[[], bool], *, patient: bool) -> ApplyTask:
        session = TableSession(target=target, store=store, lease=lease, keep=going, report=report, table=table)
        return _attempt(TableApplier(session, options.max_rows), patient, going, pressed)

    pause = target.capabilities.commit_seconds
    turns = _TableScheduler(
        store, lease, options.parallel, wake or WakeEvent(), {} if resting is None else resting, pause
    )
    with ThreadPoolExecutor(options.parallel, thread_name_prefix="apply") as pool:
        try:
            while (in_time := keep()) or (turns.outlast() and not pressed()):
                going = keep if in_time else _for_a_while(pressed)
                for table in turns.due():
                    turn = pool.submit(attempt, table, going, patient=table.table not in turns.conflicts)
                    turns.begin(table, turn, in_time=in_time)
                if not turns.under_way and not turns.rest_soon_over():
                    break
                if turns.wait():
                    turned()
            turns.finish(pressed, target.interrupt)
        finally:
            if turns.begun:
                _release(pool, options.parallel, released)
    return turns.commits


def _for_a_while(pressed: Callable[[], bool]) -> Callable[[], bool]:
    until = time.monotonic() + LATE_SECONDS
    return lambda: not pressed() and time.monotonic() < until


def _release(pool: ThreadPoolExecutor, threads: int, released: Callable[[], None]) -> None:
    """By each of the pool's threads, once: none has a second go before all have had theirs."""
    together = threading.Barrier(threads)

    def leave() -> None:
        together.wait()
        released()

    for left in [pool.submit(leave) for _ in range(threads)]:
        left.result()


@dataclass(frozen=True)
class ApplyTask:
    """The outcome of a turn; `conflict`: it met a conflict that was not reported; `whole`: it did not break off."""

    commits: int
    conflict: bool = False
    whole: bool = False


class _TableScheduler:
    """Which tables have their turn, and which wait although there is something to do for them.  Used by one thread."""

    def __init__(
        self, store: ApplyStore, lease: Lease, parallel: int, wake: WakeEvent, resting: dict[TableId, float],
        pause: float,
    ) -> None:  # fmt: skip
        self._store, self._lease = store, lease
        self._parallel, self._wake = parallel, wake
        self._resting, self._pause = resting, pause
        self._began: dict[TableId, float | None] = {}  # turns under way; None: their tables do not rest
        self._paced: set[TableId] = set()  # that rest because they have committed
        self.conflicts: dict[TableId, float] = {}  # until when, unless nothing else is left to do before
        self.under_way: dict[TableId, Future[ApplyTask]] = {}
        self._in_time: set[TableId] = set()
        self.begun = self.commits = 0

    def due(self) -> list[ApplyTable]:
        """Tables to begin with now, the most pressing first."""
        now = time.monotonic()
        for table in [table for table, until in self._resting.items() if until <= now]:
            del self._resting[table]
            self._paced.discard(table)
        found = self._look({table for table, until in self.conflicts.items() if until > now})
        if not found and not self.under_way and self.conflicts:
            found = self._look(set())
            if not found:
                self.conflicts.clear()
        return found

    def _look(self, aside: set[TableId]) -> list[ApplyTable]:
        if len(self.under_way) > self._parallel:  # one of them is queued
            return []
        room = QUEUED * self._parallel - len(self.under_way)
        return self._store.tables(set(self.under_way), without=aside | set(self._resting), most=room)

    def begin(self, one: ApplyTable, turn: Future[ApplyTask], *, in_time: bool) -> None:
        """It has its turn."""
        table = one.table
        self.begun += 1
        (self._in_time.add if in_time else self._in_time.discard)(table)
        rests = self._pause and (one.state is TableState.STREAMING or self._pause >= SHORT_SECONDS)
        self.under_way[table], self._began[table] = turn, time.monotonic() if rests else None
        turn.add_done_callback(lambda _: self._wake.set())

    def outlast(self) -> bool:
        """One that began in time is still under way."""
        return any(table in self._in_time for table in self.under_way)

    def _rest(self, table: TableId, turn: ApplyTask) -> None:
        """From the begin of a turn that committed, and from its end where it was long; from the end of one that came to
        nothing.
        """
        now, began = time.monotonic(), self._began[table]
        if not turn.commits:
            until = now + EMPTY_SECONDS
        elif began is None:
            until = now
        else:
            until = max(began + self._pause, now + min(REST_FACTOR * (now - began), MOST_REST_SECONDS))
        if until > now:
            self._resting[table] = until
            (self._paced.add if turn.commits else self._paced.discard)(table)

    def rest_soon_over(self) -> bool:
        """Of a table that has committed, and may have more to do."""
        soon = time.monotonic() + SHORT_SECONDS
        return any(self._resting.get(table, math.inf) <= soon for table in self._paced)

    def _rested(self) -> float:
        """Seconds until the next table has rested."""
        return min(self._resting.values(), default=math.inf) - time.monotonic()

    def wait(self) -> bool:
        """Until a turn ends, or there may be something to begin; True where one ended."""
        self._wake.wait(max(0.0, min(POLL_SECONDS, self._rested())))
        return self._settle([table for table, turn in self.under_way.items() if turn.done()])

    def finish(self, pressed: Callable[[], bool], interrupt: Callable[[], None]) -> None:
        """Those under way are waited for, and interrupted when they take longer although it is pressing."""
        while self.under_way:
            ended, lasting = wait(self.under_way.values(), PATIENCE_SECONDS)
            self._settle([table for table, turn in self.under_way.items() if turn in ended])
            if lasting and pressed():
                interrupt()

    def _settle(self, ended: list[TableId]) -> bool:
        for table in ended:
            turn = self.under_way.pop(table).result()
            self.commits += turn.commits
            if turn.conflict:
                self.conflicts[table] = time.monotonic() + CONFLICT_SECONDS
                continue
            self.conflicts.pop(table, None)
            self._rest(table, turn)
            if turn.whole:
                self._store.turned(self._lease, table)
        return bool(ended)


def _attempt(one: TableApplier, patient: bool, going: Callable[[], bool], pressed: Callable[[], bool]) -> ApplyTask:  # noqa: FBT001
    """Run one turn.  patient: a conflict is not a failure yet.  No error after an interruption is a failure."""
    try:
        one.run()
    except (FenceLost, SparkUnavailable):
        raise
    except TidemarkError as error:
        if pressed():
            return ApplyTask(one.commits)
        if patient and isinstance(error, TargetConflict):
            return ApplyTask(one.commits, conflict=True)
        one.failed(error)
        return ApplyTask(one.commits)
    except Exception as error:  # noqa: BLE001 - a table's unexpected trouble is the table's, not the others'
        known = TargetError(f"Unexpected {type(error).__name__} while applying the table: {error}")
        known.stack = "".join(traceback.format_exception(error))
        one.failed(known)
        return ApplyTask(one.commits)
    return ApplyTask(one.commits, whole=going())
