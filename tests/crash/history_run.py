"""One random history, its faults, and the comparison."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connections
from django.db.models import Sum
from pyiceberg.catalog import Catalog

from replicator.errors import SelectionDoesNotFit, TidemarkError, UnsupportedCharset
from replicator.faults import Fault
from replicator.model.identifiers import TableId
from replicator.targets.registry import DEFAULT, target_kind
from replicator.verification import CatalogConfig, Options, TargetConfig, compare
from replicator.verification.target import open_catalog
from testing.workload.runner import Player
from testing.workload.workload import History
from tests.crash.consistency_checker import KEYED, KEYLESS, Looked, Reader, Writer
from tests.crash.delta_lake import DeltaLake, DeltaReader
from tests.crash.faults.catalog import NAME
from tests.crash.faults.errors import TEXT
from tests.crash.faults.external_faults import Strikes, patiently
from tests.crash.faults.postgres_copies import PostgresCopies
from tests.crash.faults.proxy import Proxy
from tests.crash.harness import LEASE_SECONDS, Life, Stand
from tests.crash.late_reader import LateReader
from tests.crash.neighbour import CatalogNeighbour, DeltaNeighbour, Neighbour
from tests.crash.plan import RESTORED, SHARED, STALL_SECONDS, Plan
from tests.crash.protections import GUARDED, Guarded, protections, seen
from tests.crash.sources import SourceUnderTest
from webapp.connections import services as connection_services
from webapp.connections.selectors import describe
from webapp.destinations.lakes import catalog_config
from webapp.destinations.models import Destination
from webapp.management.commands.verify import pairs, source_reader
from webapp.monitoring.models import Failure
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable, Scope, SegmentRow, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry

CURRENT_SECONDS = 300.0
PLAY_SECONDS = 10.0
# Rightly refused where a target table is shared: one without key, and a column whose types in them no type holds.
CANNOT_SHARE = ("Tables that share the target table", "no type of the target holds both")
HALF_IDENTIFIED = "have another replica identity than the table"
LIVES_AFTER = 1


@dataclass
class Result:
    """What a trial ended with; `differences` is empty where source and target were equal all the way."""

    events: int = 0
    states: int = 0
    late: int = 0
    tables: int = 0
    shared: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)


class Trial:
    """`Trial(…).run()`."""

    def __init__(self, stand: Stand, name: str, history: History, plan: Plan, findings: Path) -> None:
        """`name`: of the database and of the replicator; unique on the stand.  `findings`: a folder for evidence."""
        self.findings = findings
        self.stand, self.name, self.history, self.plan = stand, name, history, plan
        self.source: SourceUnderTest = stand.source
        self._random = random.Random(f"trial {history.seed}")
        self._faults_file = stand.logs / f"{name}.faults"
        self._faults_file.touch()
        self._inner = list(plan.inner)
        self._outer = list(plan.outer)
        self._counted = Counter[tuple[str, str]]()
        self._over = threading.Event()
        self._played = False
        self._future_lost = threading.Event()
        self._stopped: set[str] = set()
        self.result = Result()

    def run(self) -> Result:
        """Never raises for what it finds; a fault of the harness itself is raised."""
        started = time.monotonic()
        with self._server(), self._database(), self._proxied() as proxy:
            self._strikes = Strikes(
                self.stand, self.source, proxy, self._random, self._find, lambda: self._begin([]), self._future_lost.set
            )
            player = Player(self.history, self._connect, self.name, pace=self._pace())
            self._writer = Writer(self.source, self.name, f"witness {self.history.seed}")
            self._guarded = Guarded(self.source, self.name, f"guarded {self.history.seed}", self._known)
            with self.stand.calm():
                player.prepare()
                self._writer.prepare()
                self._guarded.prepare()
                self._make(proxy)
            reader = self._reader()
            late = LateReader(self._catalog, self.name, f"late {self.history.seed}")
            neighbour = self._neighbour()
            neighbourly, iceberg = self.stand.neighbour, not isinstance(self.stand.lake, DeltaLake | PostgresCopies)
            with (
                self._beside(lambda: neighbour.live(lambda: self._over.is_set() or not neighbourly)),
                self._beside(lambda: self._play(player)),
                self._beside(self._rename),
                self._beside(lambda: self._watch(reader)),
                self._beside(lambda: late.watch(lambda: self._over.is_set() or not iceberg)),
            ):
                self._lives()
            self._strikes.end_errors()
            self._read_refused_tables_again()
            with self.stand.lake.quiet() if self.stand.lake else nullcontext():
                self._last_life()
            with self.stand.calm():
                if self.source.open_memory_tables(self.name):  # the server may have gone down for another history since
                    self._live_on()
                if not self._future_lost.is_set():
                    reader.look()
                self._judge(reader, late)
                for lost in neighbour.missing() if neighbourly else ():
                    self._differ(lost)
        self.result.faults += neighbour.did
        if not self.result.differences:
            self._tidy()
        else:
            self._keep_evidence()
        self.result.seconds = time.monotonic() - started
        connections.close_all()
        return self.result

    # The source and the replicator

    def _connect(self) -> Any:
        return self.source.connect(self.name)

    @contextmanager
    def _server(self) -> Iterator[None]:
        """The stand's, unless all of it is to be set back."""
        if RESTORED not in self.plan.outer:
            yield
            return
        with self.stand.own_source(self.name) as self.source:
            yield

    @contextmanager
    def _database(self) -> Iterator[None]:
        with self.stand.calm():
            self.source.make(self.name)
        yield
        if not self.result.differences:
            with suppress(Exception):
                self.source.drop(self.name)

    @contextmanager
    def _proxied(self) -> Iterator[Proxy]:
        server = self.source.server
        proxy = Proxy(server.host, server.port, speaks=self.source.kind)
        try:
            yield proxy
        finally:
            proxy.close()

    def _make(self, proxy: Proxy) -> None:
        source = self.source
        config = {**source.address(self.name, proxy.port), **self.plan.config}

        connection = patiently(
            lambda: connection_services.create_connection(name=self.name, kind=source.kind, config=config, user=None)
        )

        tables = [TableId(self.name, one) for one in source.tables(self.name)]
        lines = protections(patiently(lambda: describe(connection, tables)), self.history.seed)

        selection = [SelectionEntry(self.name), self._guarded.line(), *lines]

        def make() -> Replicator:
            return services.create_replicator(
                name=self.name, connection=connection, selection=selection,
                options=self.plan.options, target=self._settings(), user=None, start=True,
                destination=self._destination(),
            )  # fmt: skip

        self.id = patiently(make).pk

    def _settings(self) -> dict[str, str]:
        """Those of the plan that this kind of target has."""
        kind = target_kind(self.stand.lake.kind if self.stand.lake is not None else DEFAULT)
        found = {field.name: self.plan.target[field.name] for field in kind.form if field.name in self.plan.target}
        return found if kind.capabilities.shared_modes or found.get("routing") != SHARED else found | {"routing": ""}

    def _destination(self) -> Destination | None:
        if self.stand.lake is None:
            return None
        settings = self.stand.lake.settings
        return Destination.objects.get_or_create(
            name=NAME, defaults={"kind": self.stand.lake.kind, "config": settings}
        )[0]

    def _neighbour(self) -> Neighbour:
        seed = f"neighbour {self.history.seed}"
        if isinstance(lake := self.stand.lake, DeltaLake):
            return DeltaNeighbour(Path(lake.reader().uri(self.name, "").removeprefix("file://")), seed)
        return CatalogNeighbour(self._catalog, self.name, seed)

    def _reader(self) -> Looked:
        if isinstance(lake := self.stand.lake, DeltaLake):
            return DeltaReader(lake, self.name, self._writer)
        if isinstance(lake, PostgresCopies):
            return lake.witnesses(self.name, self._writer)
        return Reader(self._catalog, self.name, self._writer)

    def _catalog(self) -> Catalog:
        config = self._lake()
        assert isinstance(config, CatalogConfig)
        return open_catalog(config)

    def _lake(self) -> TargetConfig:
        """As readers open it."""
        return catalog_config() if self.stand.lake is None else self.stand.lake.reader()

    def _find(self) -> Replicator:
        return patiently(lambda: Replicator.objects.get(pk=self.id))

    # The workload

    def _pace(self) -> float:
        """Seconds between the steps of a writer, so that the busiest is at work for `PLAY_SECONDS`."""
        steps = Counter(step.writer for phase in self.history.phases for step in phase.steps)
        return PLAY_SECONDS / max(steps.values(), default=1)

    def _play(self, player: Player) -> None:
        time.sleep(self.plan.head_start)
        witness = threading.Thread(target=self._write)
        witness.start()
        played = player.play(self._over.is_set)
        self.result.errors.update(played.errors)
        self._played = True
        witness.join()

    def _watch(self, reader: Looked) -> None:
        """Of a future that the source has lost, the writer knows nothing that the target could be held against."""
        reader.watch(lambda: self._over.is_set() or self._future_lost.is_set())

    def _write(self) -> None:
        """From when capture follows the witness tables, so that every one of its changes is an event."""
        try:
            while not self._over.is_set():
                if {KEYED, KEYLESS} <= set(patiently(self._followed)):
                    self._writer.write(self._over.is_set)
                time.sleep(0.1)
        finally:
            connections.close_all()

    def _rename(self) -> None:
        """Rename the guarded tables once the journal knows the first one, and no restore will undo that.

        Earlier, and after a restart from scratch, it is unknown which table had the name.  Renames end with the
        workload, because SQL Server's change tables receive a change only a moment after it was written.
        """
        known = False
        while not self._over.is_set() and not known:
            time.sleep(0.2)
            known = GUARDED in self._known()
        self._guarded.play(lambda: self._played or self._over.is_set())
        connections.close_all()

    def _known(self) -> list[str]:
        """Tables that the journal knows, and will know."""
        return [] if self._strikes.going_back else patiently(self._followed)

    def _followed(self) -> list[str]:
        runs = SnapshotRun.objects.filter(table__replicator_id=self.id, table__tracked=True)
        return list(runs.values_list("table__name", flat=True))

    @contextmanager
    def _beside(self, work: Callable[[], None]) -> Iterator[None]:
        failed: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - raised again below
                failed.append(error)
            finally:
                connections.close_all()

        thread = threading.Thread(target=guarded)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()
        if failed:
            raise failed[0]

    # Lives and deaths

    def _lives(self) -> None:
        """Until the workload is played, and a little longer; what has not fired by then has nothing to fire at."""
        after = 0
        while after < LIVES_AFTER and (self._inner or self._outer or not self._played):
            after += self._played
            life = self._begin(self._inner)
            self._live(life, self._outer.pop() if self._outer else "")
            time.sleep(self._random.uniform(0, 0.3))

    def _begin(self, faults: list[Fault], *, until_current: bool = False, seconds: float = 120.0) -> Life:
        return self.stand.zygote.start(
            {
                "replicator": self.name,
                "faults": [asdict(fault) for fault in faults],
                "faults_file": str(self._faults_file),
                "gateway": self.stand.sparks.gateway(),
                "tuning": self.plan.tuning,
                "until_current": until_current,
                "seconds": seconds,
            }
        )

    def _live(self, life: Life, outer: str) -> None:
        until = time.monotonic() + self._random.uniform(2.5, 6.0)
        strikes_at = time.monotonic() + self._random.uniform(0.5, 3.0)
        second: Life | None = None
        while life.alive and time.monotonic() < until:
            if outer and time.monotonic() >= strikes_at:
                self.result.faults[outer] += 1
                second = self._strikes.play(outer, life) or second
                outer, until = "", max(until, time.monotonic() + 3.0)
            if self._fired() and second is None:  # it is stalled: another worker takes over meanwhile
                second, until = self._begin([]), time.monotonic() + STALL_SECONDS + LEASE_SECONDS
            time.sleep(0.05)
        self._fired()
        if outer:
            self._outer.append(outer)
        for one in (life, second):
            if one is not None and one.alive:
                self._end(one)

    def _end(self, life: Life) -> None:
        """Half of them are asked to stop, which takes seconds at most (invariant 10); half die."""
        if self._random.random() < 0.5:
            life.send(signal.SIGTERM)
            if life.wait(20.0):
                return
            self.result.errors["slow to stop"] += 1
        self.result.faults["worker killed"] += 1
        life.send(signal.SIGKILL)
        life.wait(5.0)

    def _fired(self) -> bool:
        """Take what has fired out of what is to fire; was there a stall?"""
        fired = [json.loads(line) for line in self._faults_file.read_text().splitlines()]
        seen = Counter((one["point"], one["action"]) for one in fired)
        stalled = False
        for fault in list(self._inner):
            if seen[fault.point, fault.action] > self._counted[fault.point, fault.action]:
                self._counted[fault.point, fault.action] += 1
                self._inner.remove(fault)
                self.result.faults[f"{fault.point}: {fault.action}"] += 1
                stalled = stalled or fault.action == "stall"
        return stalled

    def _read_refused_tables_again(self) -> bool:
        """As an operator does with tables that an error of the source has stopped, whose labels early MySQL 8.0 leaves
        open where the catalog has moved on, or whose replica identity was seen changed before that of their
        partitions; with no other.

        True where there were any.
        """
        found = False
        for table in patiently(lambda: list(selectors.tables_of(self._find()))):
            cured = any(text in table.error_message for text in (TEXT, HALF_IDENTIFIED))
            if table.state == "failed" and (cured or table.error_code == UnsupportedCharset.code):
                self.result.errors[f"stopped: {table.error_code}"] += 1
                self._stopped.add(table.name)
                found = True
                with suppress(TidemarkError):
                    services.resnapshot_table(table=table, reason="the source answers again")
        return found

    def _last_life(self) -> None:
        """Without faults, until the target holds what the source holds."""
        life = self._live_on()
        anew = self._future_lost.is_set() and patiently(self._strikes.start_anew)
        if self._read_refused_tables_again() or anew:
            life = self._live_on()
        if life.outcome not in {"CURRENT", "FAILED"}:
            tail = "\n".join(life.log.read_text(errors="replace").splitlines()[-5:])
            self._differ(f"never current ({life.outcome or 'died'}): {tail}")

    def _live_on(self) -> Life:
        life = self._begin([], until_current=True, seconds=CURRENT_SECONDS)
        life.wait(CURRENT_SECONDS + 30)
        if life.alive:
            life.send(signal.SIGKILL)
        if not life.outcome and "django.db.utils.OperationalError" in life.log.read_text(errors="replace"):
            # A history beside this one has killed it.
            self.result.errors["began while the metadata database was down"] += 1
            return self._live_on()
        return life

    # The judgement

    def _differ(self, text: str) -> None:
        self.result.differences.append(text)

    def _judge(self, reader: Looked, late: LateReader) -> None:
        replicator = self._find()
        if replicator.status == "failed":
            self._differ(f"the replicator failed: {replicator.error_message}")
        for text in [*reader.violations, *late.violations, *self._strikes.differences]:
            self._differ(text)
        self.result.states, self.result.late = reader.states, late.read
        if not reader.states and not self._future_lost.is_set():
            self._differ(f"no state of the witness tables was ever read: {reader.trouble}")
        tables = list(selectors.tables_of(replicator))
        self._equal(replicator, tables)
        if not isinstance(self.stand.lake, DeltaLake | PostgresCopies):
            for text in () if self._strikes.anew else seen(self._catalog(), tables):
                self._differ(text)
        self._counts(tables)
        rows = SegmentRow.objects.filter(table__replicator=replicator).aggregate(rows=Sum("rows"))
        self.result.events = rows["rows"] or 0

    def _equal(self, replicator: Replicator, tables: list[ReplicatorTable]) -> None:
        refused = {*self.history.refused, *self.source.unfollowable(self.name)}
        there = self.source.tables(self.name)
        failed = [table for table in tables if table.state == "failed"]
        if isinstance(lake := self.stand.lake, PostgresCopies):
            refused |= {table.name for table in failed if any(text in table.error_message for text in lake.refused)}
        lines = list(replicator.selection.filter(pattern=False).exclude(table=""))
        protected = {one.table for one in lines if one.masks or one.row_filter or one.excluded_columns}
        misfits = [one for one in failed if one.error_code == SelectionDoesNotFit.code and one.name in protected]
        self.result.errors["protections that no longer fit"] += len(misfits)
        failed = [one for one in failed if one not in misfits]
        # A table that was named is missed.
        failed = [one for one in failed if one.name in there or one.error_code != "table_disappeared"]
        for table in failed:
            if table.name not in refused and not any(text in table.error_message for text in CANNOT_SHARE):
                self._differ(f"{table} failed: {table.error_message}")
        live = [table for table in tables if table.state not in {"dropped", "failed"}]
        inexact = self.source.inexact(self.name)
        known = {table.name for table in live + failed} | {table.name for table in misfits if table.name in there}
        gone = {one.name for one in failed if CANNOT_SHARE[0] in one.error_message}  # failed at its next name
        for name in sorted((there ^ known) - (gone - there)):
            self._differ(f"{name} is {'not followed' if name in there else 'not in the source any more'}")
        options = Options(zero_dates=self.plan.options.get("zero_dates", "null"), shown=5)
        compared = pairs(replicator, [table for table in live if table.name not in inexact])
        if self.source.locks_python:  # the proxy's threads would wait for it, and it for them
            replicator.connection.config |= {"port": self.source.server.port}
        reports = compare(source_reader(replicator.connection), self._lake(), compared, options)
        self.result.tables, self.result.shared = len(reports), sum(bool(pair.part[0]) for pair in compared)
        for report in reports:
            if not report.equal:
                self._differ("\n".join(report.lines()))

    def _counts(self, tables: list[ReplicatorTable]) -> None:
        """What is shown is what was made: events of the witness tables, and injected failures.

        Keys that were asked for and are not there are deletes, too; what a fault interrupts is read, and they are
        counted, again.
        """
        struck = [json.loads(line) for line in self._faults_file.read_text().splitlines()]
        reads = 1 + len(struck) + len(self.plan.outer)
        for table in tables:
            if table.name in self._writer.made and table.name not in self._stopped and not self._future_lost.is_set():
                made = self._writer.made[table.name]
                asked = table.runs.filter(scope=Scope.KEYS).aggregate(keys=Sum("rows_estimate", default=0))["keys"]
                more = table.rows_deleted - made.deletes
                counted = self.source.nets_changes or (table.rows_inserted, table.rows_updated) == (
                    made.inserts,
                    made.updates,
                )
                if not counted or (not self.source.nets_changes and not 0 <= more <= asked * reads):
                    shown = (table.rows_inserted, table.rows_updated, table.rows_deleted)
                    self._differ(f"{table} shows {shown} events, there were {vars(made)}, {asked} keys asked for")
        made_failures = sum(one["action"] == "fail" for one in struck)
        shown_failures = Failure.objects.filter(replicator_id=self.id, code="fault").count()
        if shown_failures > made_failures:
            self._differ(f"{shown_failures} injected failures are shown, there were {made_failures}")

    def _keep_evidence(self) -> None:
        """What the workers said, what journal, staging and target hold, and the source's log, beside the finding."""
        folder = self.findings / self.name
        folder.mkdir(parents=True, exist_ok=True)
        for file in self.stand.logs.glob(f"{self.name}[-.]*"):
            shutil.copy(file, folder / file.name)
        replicator = self._find()
        for name, rows in (
            ("timeline", replicator.timeline.order_by("id")), ("events", replicator.events.order_by("id")),
            ("failures", replicator.failures.order_by("id")), ("tables", replicator.tables.order_by("id")),
            ("segments", SegmentRow.objects.filter(table__replicator=replicator).order_by("id")),
            ("runs", SnapshotRun.objects.filter(table__replicator=replicator).order_by("id")),
        ):  # fmt: skip
            lines = [json.dumps(row, default=str, ensure_ascii=False) for row in rows.values()]
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
        for file in [*self._folders(), *self.source.log_files()]:
            subprocess.run(["cp", "-a", file, folder], check=False)

    def _folders(self) -> list[Path]:
        """Of this replicator in staging and in the warehouse."""
        return [
            folder
            for place, below in (
                (self.stand.lake.folder if self.stand.lake else _local(settings.TIDEMARK_WAREHOUSE_URL), self.name),
                (_local(settings.TIDEMARK_STAGING_URL), f"r{self.id}-"),
            )
            for folder in place.glob(f"{below}*")
        ]

    def _tidy(self) -> None:
        """Files of a history that ended well are not needed."""
        for folder in self._folders():
            shutil.rmtree(folder, ignore_errors=True)
        for file in self.stand.logs.glob(f"{self.name}-*"):
            file.unlink(missing_ok=True)


def _local(url: str) -> Path:
    return Path(url.removeprefix("file://"))
