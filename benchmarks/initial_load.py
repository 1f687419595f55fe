"""The initial load of a database under write load, and the proof that nothing was lost or doubled."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import snapshots
from benchmarks.data.datasets import Dataset, S
from benchmarks.data.world import World
from benchmarks.data.writer import Writer
from benchmarks.memory import PeakMemory
from benchmarks.report import Row
from replicator.model.identifiers import TableId

if TYPE_CHECKING:  # Django is set up when a world is entered
    from webapp.replicators.models import Replicator

TIMEOUT = 3600
GOAL_DEBEZIUM = 3.0
GOAL_MEMORY = 4 * 2**30


@dataclass(frozen=True)
class Load:
    """What one load took: seconds until every table streamed, seconds of the whole run, peak bytes."""

    streaming: float
    seconds: float
    memory: int
    transactions: int


def run(world: World[S], dataset: Dataset[S]) -> list[Row]:
    """Load the dataset into the source, measure the floor, copy it under write load, compare."""
    say(f"{dataset.name}: loading the source")
    dataset.load(world.source)
    rows = world.source.count(dataset.database)
    say(f"{dataset.name}: {rows} rows; reading them with a client that discards")
    floor = discard(world, dataset)
    peer = debezium(world, dataset)
    replicator = create(world, dataset.database, dataset.name)
    say(f"{dataset.name}: copying under write load")
    load = copy(world, dataset, replicator)
    say(f"{dataset.name}: {load.transactions} transactions written meanwhile; verifying")
    wrong, verified = verify(replicator)
    say(f"{dataset.name}: {verified:.1f} s to verify")
    return figures(dataset, rows, floor, peer, load, wrong)


def figures(dataset: Dataset[S], rows: int, floor: float, peer: float | None, load: Load, wrong: int) -> list[Row]:
    """`floor` in seconds, `peer` in rows a second."""
    name, ours, memory = dataset.name, rows / load.streaming, f"≤ {GOAL_MEMORY / 2**20:,.0f} MiB"
    reading = f"{name}: initial load, {rows:,} rows: Debezium reading {dataset.largest}"
    return [
        *([Row.at_least(reading, ours, peer, GOAL_DEBEZIUM, "rows/s")] if peer else []),
        Row(
            f"{name}: initial load, {rows:,} rows: a client that discards",
            ours,
            rows / floor,
            "none",
            met=True,
            unit="rows/s",
        ),
        Row(f"{name}: seconds until every table streams", load.streaming, floor, "none", met=True, unit="s"),
        Row(f"{name}: seconds until current and ended", load.seconds, floor, "none", met=True, unit="s"),
        Row(
            f"{name}: peak memory, engine and JVM",
            load.memory / 2**20,
            None,
            memory,
            load.memory <= GOAL_MEMORY,
            "MiB",
        ),
        Row(f"{name}: transactions written meanwhile", load.transactions, None, "> 0", load.transactions > 0),
        Row(f"{name}: rows lost, doubled or different", wrong, None, "0", wrong == 0),
    ]


def say(text: str) -> None:
    """Progress goes to stderr, figures to stdout."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def discard(world: World[S], dataset: Dataset[S]) -> float:
    """The floor: seconds in which the plain client reads all rows and throws them away; warm."""
    tables = world.source.tables(dataset.database)
    seconds = []
    for _ in range(2):
        started = time.monotonic()
        world.source.discard(dataset.database, tables)
        seconds.append(time.monotonic() - started)
    return min(seconds)


def debezium(world: World[S], dataset: Dataset[S]) -> float | None:
    """Rows a second of its plain snapshot of the largest table, into nothing."""
    if not dataset.largest:
        return None
    table = TableId(dataset.database, dataset.largest)
    with closing(world.source.connect(dataset.database)) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {dataset.largest}")
        rows = int(cursor.fetchone()[0])
    say(f"{dataset.name}: Debezium reads {rows} rows of {dataset.largest}")
    return snapshots.debezium(world.source, table, rows, world.folder).rows


def create(world: World[S], database: str, name: str, settings: Mapping[str, str] | None = None) -> Replicator:
    """Connection and replicator of a whole database, through the services that the pages use.

    settings: of its destination, where it is not the lakehouse of the installation.
    """
    from webapp.connections.services import create_connection
    from webapp.destinations.services import destination_for
    from webapp.replicators.selection.entries import SelectionEntry
    from webapp.replicators.services import create_replicator

    source = world.source
    connection = create_connection(name=f"bench {name}", kind=source.kind, config=source.config)
    selection = [SelectionEntry(database, table) for table in source.tables(database)]
    destination = None if settings is None else destination_for("iceberg", settings)
    made: Replicator = create_replicator(name=name, connection=connection, selection=selection, destination=destination)
    return made


def copy(world: World[S], dataset: Dataset[S], replicator: Replicator) -> Load:
    """`manage.py run --until-current` while the writer writes; the writer stops when every table streams.

    A run ends when what the source held at its start is in the target, so a second one fetches the last writes.
    """
    log = world.folder / f"{dataset.name}.log"
    command = ("run", replicator.name, "--until-current", "--timeout", str(TIMEOUT))
    connection = world.source.connect(dataset.database)
    with Writer(connection, dataset.writes) as writer, world.start(*command, log=log) as process:
        started = time.monotonic()
        with PeakMemory(process.pid) as peak:
            while process.poll() is None and not streams(replicator):
                time.sleep(0.2)
            streaming = time.monotonic() - started
            writer.stop()
            check(process.wait(), log)
        seconds = time.monotonic() - started
    with world.start(*command, log=log) as process:
        check(process.wait(), log)
    return Load(streaming, seconds, peak.bytes, writer.transactions)


def check(code: int, log: Path) -> None:
    """SystemExit with the end of the log where the run failed."""
    if code:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        sys.exit(f"manage.py run ended with {code}:\n{end}")


def streams(replicator: Replicator) -> bool:
    """True when every table has its initial load behind it (or has failed: the comparison will say so)."""
    states = set(replicator.tables.values_list("state", flat=True))
    return bool(states) and states <= {"streaming", "failed"}


def verify(replicator: Replicator) -> tuple[int, float]:
    """Rows that are wrong in any way, and the seconds it took to know."""
    from webapp.management.commands.verify import chosen
    from webapp.management.commands.verify import verify as compare

    started = time.monotonic()
    reports = compare(replicator, chosen(replicator, [])[0], wait=0, shown=5)
    wrong = 0
    for report in reports:
        found = report.missing + report.extra + report.different + report.null_sequences + report.duplicate_sequences
        wrong += found or int(not report.equal)
        if not report.equal:
            say("\n".join(report.lines()))
    return wrong, time.monotonic() - started
