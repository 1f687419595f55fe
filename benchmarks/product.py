"""The whole product beside a source, as `manage.py up` starts it, with one replicator or several; and what its
processes use.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from benchmarks.data.world import World
from benchmarks.initial_load import say
from webapp.embedded.ports import free_port

if TYPE_CHECKING:  # Django is set up when a world is entered
    from webapp.replicators.models import Replicator

TIMEOUT = 1800.0
EVERY = 0.5


@dataclass(frozen=True)
class Usage:
    """CPU seconds (user and system), and bytes given to the disks, by process."""

    cpu: dict[str, float]
    written: dict[str, int]

    def since(self, before: Usage) -> Usage:
        """What was used between `before` and this."""
        cpu = {name: value - before.cpu.get(name, 0.0) for name, value in self.cpu.items()}
        return Usage(cpu, {name: value - before.written.get(name, 0) for name, value in self.written.items()})


@contextmanager
def running(world: World[Any]) -> Iterator[int]:
    """`manage.py up` until the end of the block; its process id.  Its pages answer when the block begins."""
    port, log = free_port(), world.folder / "up.log"
    with world.start("up", "--port", str(port), log=log) as process:
        wait(lambda: answers(port), "The pages do not answer.", log)
        yield process.pid


def answers(port: int) -> bool:
    """Does the web server?"""
    with contextlib.suppress(URLError, OSError), urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
        return True
    return False


def wait(done: Callable[[], bool], otherwise: str, log: Path | None = None) -> None:
    """Until `done()`; SystemExit with `otherwise` when that takes too long."""
    deadline = time.monotonic() + TIMEOUT
    while not done():
        if time.monotonic() > deadline:
            end = log.read_text(errors="replace")[-3000:] if log is not None and log.exists() else ""
            raise SystemExit(f"{otherwise}\n{end}")
        time.sleep(EVERY)


@contextmanager
def replicated(
    world: World[Any], database: str, parts: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[list[Replicator]]:
    """Replicate the database's tables with `parts` replicators, which are current when the block begins and stopped at
    its end.

    `settings`: of their destination, unless it is the lakehouse of the installation.
    """
    from webapp.connections.services import create_connection
    from webapp.destinations.services import destination_for
    from webapp.replicators.selection.entries import SelectionEntry
    from webapp.replicators.services import create_replicator, start_replicator, stop_replicator

    source = world.source
    connection = create_connection(name=database, kind=source.kind, config=source.config)
    tables = source.tables(database)
    destination = None if settings is None else destination_for("iceberg", settings)
    replicators: list[Replicator] = []
    for part in range(parts):
        selection = [SelectionEntry(database, table) for table in tables[part::parts]]
        name = f"{database}_{part}"
        replicators.append(
            create_replicator(name=name, connection=connection, selection=selection, destination=destination)
        )
        start_replicator(replicator=replicators[-1])
    say(f"{database}: the initial load of {len(tables)} tables")
    wait(lambda: all(map(current, replicators)), f"{database} does not become current.")
    try:
        yield replicators
    finally:
        for replicator in replicators:
            stop_replicator(replicator=replicator)


def current(replicator: Replicator) -> bool:
    """All tables stream, and hold what is journaled.  SystemExit where something failed."""
    from django.db.models import F

    replicator.refresh_from_db()
    failed = replicator.tables.filter(state="failed").first()
    if replicator.error_message or failed is not None:
        raise SystemExit(f"{replicator}: {replicator.error_message or failed.error_message}")
    behind = replicator.tables.exclude(state="streaming") | replicator.tables.filter(last_sequence__gt=F("applied"))
    return not behind.exists()


def usage(world: World[Any], up: int) -> Usage:
    """Of everything that `up` started, and of the metadata's Postgres, up to now: of processes that ended, too."""
    cpu: dict[str, float] = {}
    written = {"metadata": _written_by_postgres()}
    for name, process in _processes(world, up):
        with contextlib.suppress(psutil.Error, OSError):
            times = process.cpu_times()
            cpu[name] = cpu.get(name, 0.0) + sum((times.user, times.system, times.children_user, times.children_system))
            if not name.startswith("metadata"):
                written[name] = written.get(name, 0) + process.io_counters().write_bytes
    return Usage(cpu, written)


def _written_by_postgres() -> int:
    """Pages of tables and of the write-ahead log, as it counts them: the kernel counts the whole folio, up to 1 MiB,
    that a page lies in.
    """
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush(), COALESCE(sum(write_bytes), 0)::bigint FROM pg_stat_io")
        return int(cursor.fetchone()[1])


def _processes(world: World[Any], up: int) -> Iterator[tuple[str, psutil.Process]]:
    postmaster = psutil.Process(world.metadata_process)
    for process in (postmaster, *postmaster.children(recursive=True)):
        with contextlib.suppress(psutil.Error, IndexError):
            yield _role(process.cmdline()[0]), process
    root = psutil.Process(up)
    yield "up", root
    for child in root.children():
        for process in (child, *child.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                yield _name(child, process), process


def _role(title: str) -> str:
    """`postgres: checkpointer`; backends are called after their user."""
    role = title.removeprefix("postgres: ").strip()
    return f"metadata ({'backends' if role.startswith('tidemark') else role.rpartition('/')[2]})"


def _name(child: psutil.Process, process: psutil.Process) -> str:
    line = child.cmdline()
    if "redis-server" in line[0]:
        return "redis"
    if process.name() == "java":
        return "spark"
    if "-Q" in line:
        return line[line.index("-Q") + 1]
    return "beat" if "beat" in line else "web"
