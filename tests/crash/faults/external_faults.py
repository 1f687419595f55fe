"""What breaks, or is asked for, from outside a worker."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connections

from replicator.errors import LogPurged, SourceReplaced, TidemarkError
from replicator.model.offset import Offset
from replicator.sources.registry import source_kind
from tests.crash.consistency_checker import KEYED, KEYLESS
from tests.crash.faults.proxy import Proxy
from tests.crash.harness import LEASE_SECONDS, Life, Stand
from tests.crash.plan import FAILED_OVER, METADATA_RESTORED, REDO_HELD, RESTORED
from tests.crash.protections import NAMES
from tests.crash.sources import SourceUnderTest
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.run import wiring

T = TypeVar("T")
PATIENCE_SECONDS = 60.0
HUNG_SECONDS = 3.0
READ_SECONDS, REFUSED_SECONDS = 30.0, 120.0
# Widths that those of a plan and each other have not, and none.
OTHER_PARTITIONS = (
    "*.*: bucket(5, _sequence_num)",
    "*.*: bucket(2, _sequence_num), truncate(2000, _sequence_num)",
    "*.witness: bucket(7, id), truncate(50, stamp)\n*.*: truncate(900, _sequence_num)",
    "",
)


class Strikes:
    """By name, as `plan.OUTER` lists them."""

    def __init__(
        self,
        stand: Stand,
        source: SourceUnderTest,
        proxy: Proxy,
        chance: random.Random,
        find: Callable[[], Replicator],
        begin: Callable[[], Life],
        future_lost: Callable[[], None],
    ) -> None:
        """`find` returns the current replicator, `begin` starts another worker for it; `future_lost` is called before
        the source or the metadata database is restored to an older state.

        differences: what the replicator should have done and did not.  anew: it was restarted from scratch.
        going_back: the metadata database will be restored, so the journal will lose what it learns now.
        """
        self._stand, self._source, self._proxy, self._random = stand, source, proxy, chance
        self._find, self._begin, self._future_lost = find, begin, future_lost
        self.differences: list[str] = []
        self.anew = self.going_back = False
        self._by_name: dict[str, Callable[[Life], object]] = {
            "source killed": lambda _: stand.break_source(lambda: source.server.restart(signal.SIGKILL)),
            "source restarted": lambda _: stand.break_source(lambda: source.server.restart(signal.SIGTERM)),
            "metadata database restarted": lambda _: stand.restart_metadata(),
            "connection cut in mid-packet": lambda _: proxy.cut(chance.randint(1, 5000)),
            "connection cut inside a message of the log": lambda _: proxy.cut_inside(chance.randint(0, 40)),
            "connections ended by the server": lambda _: self._ended(),
            "connection cut": lambda _: proxy.cut_now(),
            "connection hangs": lambda _: proxy.hang(HUNG_SECONDS),
            "connection refused": self._refuse,
            "the source answers errors": lambda _: self._answer_errors(),
            "Spark killed": lambda _: stand.sparks.kill(),
            "worker killed": lambda life: life.send(signal.SIGKILL),
            "worker frozen beyond its lease": self._freeze,
            "two workers at once": lambda _: begin(),
            "tables asked to be read anew": lambda _: patiently(self._read_anew),
            "parts of tables asked to be read": lambda _: patiently(self._read_parts),
            "tables taken out and in again": lambda _: self._take_out(),
            "tables upgraded to format version 3": lambda _: self._set("format_version", "3"),
            "tables partitioned otherwise": lambda _: self._set("partition_by", chance.choice(OTHER_PARTITIONS)),
            "paused and resumed": self._pause,
            FAILED_OVER: lambda _: stand.break_source(source.fail_over),
            REDO_HELD: lambda _: source.hold_redo(chance.uniform(1.0, 8.0)),
            RESTORED: self._restore,
            METADATA_RESTORED: self._restore_metadata,
        }

    def play(self, name: str, life: Life) -> Life | None:
        """Returns a second worker where there is one now."""
        second = self._by_name[name](life)
        return second if isinstance(second, Life) else None

    def _ended(self) -> None:
        """As an administrator does, or a server that is short of memory."""
        name = self._find().name
        with suppress(*self._source.errors):
            self._source.execute(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}' AND client_port > 0 "
                "AND application_name = 'tidemark'"
            )

    def _answer_errors(self) -> None:
        """Of any class, to some or all of the next statements, done or not."""
        share = self._random.choice((0.1, 0.5, 1.0))
        with suppress(*self._source.errors):  # of a server that was stopped
            self._source.answer_errors(self._proxy, self._random.randint(3, 60), self._random, share)

    def end_errors(self) -> None:
        """The source answers again."""
        with self._stand.calm():
            self._source.answer_errors(self._proxy, 0, self._random)

    def _refuse(self, _: Life) -> None:
        self._proxy.refuse(HUNG_SECONDS)
        self._proxy.cut_now()

    def _freeze(self, life: Life) -> Life:
        life.send(signal.SIGSTOP)
        second = self._begin()
        time.sleep(LEASE_SECONDS + 1.5)
        life.send(signal.SIGCONT)
        return second

    def _read_anew(self) -> None:
        streaming = [table for table in selectors.tables_of(self._find()) if table.state == "streaming"]
        for table in self._random.sample(streaming, k=min(2, len(streaming))):
            with suppress(TidemarkError):  # it was dropped meanwhile
                services.resnapshot_table(table=table, reason="a history asks for it")

    def _read_parts(self) -> None:
        """Keys, of which some are there, and all rows by a condition; the source may be away, and is not asked
        before.
        """
        streaming = [table for table in selectors.tables_of(self._find()) if table.state == "streaming"]
        quote = "`" if self._find().connection.kind == "mysql" else '"'
        for table in self._random.sample(streaming, k=min(3, len(streaming))):
            newest = table.schemas.order_by("-version").first()
            key = newest.parsed.key if newest is not None else ()
            about = {"table": table, "reason": "a history asks for it", "tried": False}
            with suppress(TidemarkError):  # it has no key, or keys of another type, or was dropped meanwhile
                keys = [[str(self._random.randint(0, 300)) for _ in key] for _ in range(60)]
                services.read_keys(keys=keys, **about)
            with suppress(TidemarkError):
                services.read_rows(condition=f"{quote}{key[0]}{quote} IS NOT NULL" if key else "1 = 1", **about)

    def _take_out(self) -> None:
        """Not those whose events are counted: a table that comes back counts again.

        In the meantime anything may happen to them.
        """
        tables = [table.table_id for table in patiently(lambda: list(selectors.tables_of(self._find())))]
        others = [table for table in tables if table.name not in {KEYED, KEYLESS, *NAMES}]
        out = self._random.sample(others, k=min(3, len(others)))
        for table in out:
            patiently(lambda table=table: services.remove_table(replicator=self._find(), table=table))
        time.sleep(self._random.uniform(0, HUNG_SECONDS))
        again = [SelectionEntry(table.database, table.name) for table in out]
        patiently(lambda: services.add_tables(replicator=self._find(), selection=again))

    def _set(self, name: str, value: str) -> None:
        """Tables of Iceberg are changed by workers that begin from now on, in the midst of what they hold."""

        def change() -> None:
            replicator = self._find()
            if replicator.destination.kind == "iceberg":
                services.update_target(replicator=replicator, target={**replicator.target, name: value})

        patiently(change)

    def _restore(self, life: Life) -> Life:
        """The source goes back to a copy; what was read of the future that it loses is in the target, so that the log
        is refused.
        """
        self._stand.break_source(self._source.copy_data)
        end = patiently(self._log_end)
        life = self._other(life)
        deadline = time.monotonic() + READ_SECONDS
        while not (read := patiently(lambda: self._has_read(end))) and time.monotonic() < deadline:
            life = self._other(life)
        self._future_lost()
        self._stand.break_source(self._source.restore_data)
        return self._refused(life) if read else life

    def _restore_metadata(self, life: Life) -> Life:
        """Restore a copy that is some seconds old; in half of the cases the worker runs on, although an operator should
        stop all workers first.
        """
        self.going_back = True
        self._stand.copy_metadata()
        until = time.monotonic() + self._random.uniform(2.0, 15.0)
        while time.monotonic() < until:
            life = self._other(life)
        self._future_lost()
        if self._random.random() < 0.5:
            life.send(signal.SIGKILL)
        self._stand.restore_metadata()
        self.going_back = False
        return life

    def _refused(self, life: Life) -> Life:
        """Until the replicator says that the source is another; then it is started again, as an operator does."""
        deadline = time.monotonic() + REFUSED_SECONDS
        while not (refused := patiently(self.start_anew)) and time.monotonic() < deadline:
            life = self._other(life)
        if not refused:
            self.differences.append("the source went back behind what was read, and the replicator did not notice")
        return life

    def start_anew(self) -> bool:
        """Where it was refused that the source is what it was; a copy from before the slot was made has none."""
        replicator = self._find()
        if replicator.status != "failed" or replicator.error_code not in {SourceReplaced.code, LogPurged.code}:
            return False
        services.start_anew(replicator=replicator)
        self.anew = True
        return True

    def _other(self, life: Life) -> Life:
        """Wait a moment, and return a running worker: this one, or a new one if it has ended."""
        time.sleep(0.2)
        return life if life.alive else self._begin()

    def _log_end(self) -> Offset:
        replicator = self._find()
        with wiring.opened_source(replicator) as source:
            return source.log(wiring.label(replicator)).state().offset

    def _has_read(self, end: Offset) -> bool:
        """Further than `end`; of a replicator that has not begun, nothing is in the target that a source could go back
        behind.
        """
        replicator = self._find()
        offset = replicator.checkpoint_offset
        return offset is not None and end < source_kind(replicator.connection.kind).parse_offset(offset)

    def _pause(self, _: Life) -> None:
        patiently(lambda: services.pause_replicator(replicator=self._find()))
        time.sleep(HUNG_SECONDS)
        patiently(lambda: services.resume_replicator(replicator=self._find()))


def patiently(work: Callable[[], T]) -> T:
    """The harness's own questions to the metadata database, which is restarted now and then."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return work()
        except (DatabaseError, InterfaceError, TidemarkError):
            if time.monotonic() > deadline:
                raise
            connections.close_all()
            time.sleep(0.3)
