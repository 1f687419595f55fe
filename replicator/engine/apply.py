"""The apply loop: what capture journaled becomes visible in the target.

Per table, in sequence order, starting from what the target itself says it holds (invariant 3).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from replicator.engine.reporting import Reporter
from replicator.engine.table_pass import TablePass
from replicator.errors import FenceLost, SparkUnavailable, TargetConflict, TargetError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.state.journal import ApplyStore, ApplyTable
from replicator.state.lease import Lease
from replicator.targets.base import Target


@dataclass(frozen=True)
class ApplyOptions:
    """`parallel` tables at a time; at most about `max_rows` changes in one target commit."""

    parallel: int = 3
    max_rows: int = 2_000_000


def run_apply(
    *,
    target: Target,
    store: ApplyStore,
    lease: Lease,
    keep: Callable[[], bool],
    options: ApplyOptions,
    report: Reporter,
    released: Callable[[], None] = lambda: None,
) -> int:
    """One pass over the tables that have something to do; returns the number of target commits.

    A table's trouble is told to the store and does not stop the others.  FenceLost and SparkUnavailable are raised.
    A conflict is trouble only if it lasts: most are the last commit of a worker that lost its lease, or a name that another
    table of the same pass has still.
    `released` is called by a thread that is done with the store (connections are often a thread's own).
    """
    conflicts: list[TableId] = []

    def attempt(table: ApplyTable, patience: list[TableId] | None) -> int:
        return _attempt(TablePass(target, store, lease, keep, options.max_rows, report, table), released, patience)

    with ThreadPoolExecutor(options.parallel, thread_name_prefix="apply") as pool:
        commits = sum(pool.map(lambda table: attempt(table, conflicts), store.tables()))
        if conflicts:
            commits += sum(pool.map(lambda table: attempt(table, None), store.tables()))
    return commits


def _attempt(one: TablePass, released: Callable[[], None], conflicts: list[TableId] | None) -> int:
    """Where `conflicts` is given, a conflict is added to it and nothing else comes of it."""
    try:
        return one.run()
    except (FenceLost, SparkUnavailable):
        raise
    except TidemarkError as error:
        if conflicts is not None and isinstance(error, TargetConflict):
            conflicts.append(one.table)
        else:
            one.failed(error)
    except Exception as error:  # noqa: BLE001 - a table's unexpected trouble is the table's, not the others'
        one.failed(TargetError(f"Unexpected {type(error).__name__} while the table was applied: {error}"))
    finally:
        released()
    return one.commits
