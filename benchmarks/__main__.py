"""`python -m benchmarks [ONLY …] [--source mariadb|postgres]`: run, print figures, note them in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import initial_load, latency, many_tables, pages, planning, snapshots, worker_ready
from benchmarks.data import datasets, postgres_datasets
from benchmarks.data.sources import MariaDBSource, PostgresSource, Source
from benchmarks.data.world import ROOT, World
from benchmarks.lake import catalogs, day, left_out, merging, partitioned, requests, warehouses
from benchmarks.logs import capture_memory, mysql_log, postgres_log
from benchmarks.rates import catch_up, encrypted, highest, hot_tables, transactions
from benchmarks.report import Row, write_section

DATA = ROOT.parent / "shared" / "data"
SOURCES: dict[str, tuple[Callable[[Path], Source], Any]] = {
    "mariadb": (MariaDBSource, datasets),
    "postgres": (PostgresSource, postgres_datasets),
}
LOG_ROWS = 1_000_000
MEMORY_ROWS = 1_000_000
SNAPSHOT_ROWS = 2_000_000


@dataclass(frozen=True)
class Benchmark:
    """`title` is that of its section in the documentation; `sources` are those that have it."""

    title: str
    run: Callable[[World[Any], argparse.Namespace], list[Row]]
    sources: Collection[str] = tuple(SOURCES)


def load(dataset: Callable[[Any, argparse.Namespace, Path], datasets.Dataset[Any]]) -> Benchmark:
    """`dataset` gets a source's datasets, what was asked, a folder for temporary files."""

    def run(world: World[Any], asked: argparse.Namespace) -> list[Row]:
        return initial_load.run(world, dataset(SOURCES[asked.source][1], asked, world.folder))

    return Benchmark("initial load", run)


def log(source: str, compare: Callable[[Any, int, int, Path], list[Row]]) -> Benchmark:
    """`compare` gets the source, rows, repetitions, a folder."""

    def run(world: World[Any], asked: argparse.Namespace) -> list[Row]:
        return compare(world.source, asked.rows or LOG_ROWS, asked.repeats, world.folder)

    return Benchmark("log", run, (source,))


def snapshot(compare: Callable[[Source, int, int, Path], list[Row]]) -> Benchmark:
    """`compare` gets the source, rows, repetitions, a folder."""

    def run(world: World[Any], asked: argparse.Namespace) -> list[Row]:
        return compare(world.source, asked.rows or SNAPSHOT_ROWS, asked.repeats, world.folder)

    return Benchmark("snapshot", run)


BENCHMARKS = {
    "employees": load(lambda made, asked, _: made.employees(asked.data)),
    "chinook": load(lambda made, asked, _: made.chinook(asked.data)),
    "tpch": load(lambda made, asked, folder: made.tpch(asked.scale, folder / "tpch")),
    "log-rows": log("mariadb", mysql_log.one_row_statements),
    "log-events": log("mariadb", mysql_log.many_row_events),
    "log-head": log("postgres", postgres_log.near_the_head),
    "log-backlog": log("postgres", postgres_log.backlog),
    "snapshot-plain": snapshot(snapshots.plain),
    "snapshot-flowing": snapshot(snapshots.flowing),
    "memory-rows": Benchmark(
        "memory",
        lambda world, asked: capture_memory.of_rows(world.source, asked.rows or MEMORY_ROWS, world.folder),
    ),
    "memory-blob": Benchmark("memory", lambda world, _: capture_memory.of_blob(world.source, world.folder)),
    "merge": Benchmark("merge", lambda world, asked: merging.run(world, asked.rows, asked.repeats), ("mariadb",)),
    "merge-partitioned": Benchmark(
        "merge", lambda world, asked: partitioned.run(world, asked.rows, asked.repeats), ("mariadb",)
    ),
    "merge-requests": Benchmark("merge", lambda world, asked: requests.run(world, asked.rows), ("mariadb",)),
    "warehouses": Benchmark(
        "warehouses", lambda world, asked: warehouses.run(world, asked.rows, asked.repeats), ("mariadb",)
    ),
    "catalogs": Benchmark("catalogs", lambda world, asked: catalogs.run(world, asked.rows), ("mariadb",)),
    "day": Benchmark("day", lambda world, asked: day.run(world, asked.rows), ("mariadb",)),
    "merge-left-out": Benchmark(
        "merge", lambda world, asked: left_out.run(world, asked.rows, asked.repeats), ("mariadb",)
    ),
    "catch-up": Benchmark("catch-up", lambda world, asked: catch_up.run(world, asked.rows)),
    "latency": Benchmark("latency", lambda world, asked: latency.under_load(world, latency.LATENCY, asked.seconds)),
    "latency-s3": Benchmark(
        "latency", lambda world, asked: latency.under_load(world, latency.LATENCY_S3, asked.seconds)
    ),
    "transactions": Benchmark("transactions", lambda world, asked: transactions.run(world, asked.rows), ("mariadb",)),
    "highest": Benchmark("highest rate", lambda world, asked: highest.run(world, asked.seconds)),
    "hot-tables": Benchmark("hot tables", lambda world, asked: hot_tables.run(world, asked.rows, asked.seconds)),
    "tls": Benchmark("TLS", lambda world, asked: encrypted.run(world, asked.rows, asked.repeats)),
    "fleet": Benchmark("fleet", lambda world, asked: latency.under_load(world, latency.FLEET, asked.seconds)),
    "replicators": Benchmark(
        "replicators",
        lambda world, asked: latency.under_load(world, latency.REPLICATORS, asked.seconds),
        ("mariadb",),
    ),
    "lag-snapshot": Benchmark(
        "latency",
        lambda world, asked: latency.during_snapshot(world, asked.rows or latency.SNAPSHOT_ROWS, asked.seconds),
    ),
    "idle": Benchmark("idle", lambda world, asked: latency.idle(world, asked.seconds)),
    "tables": Benchmark("tables", lambda world, asked: many_tables.run(world, asked.rows or many_tables.TABLES)),
    "planning": Benchmark("planning", lambda world, asked: planning.run(world, asked.rows or planning.TABLES)),
    "pages": Benchmark("pages", lambda world, asked: pages.run(world, asked.repeats), ("mariadb",)),
    "worker-ready": Benchmark("worker", lambda world, asked: worker_ready.run(world, asked.repeats), ("mariadb",)),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="ONLY", help=f"of {', '.join(BENCHMARKS)}; all that the source has by default"
    )
    parser.add_argument("--source", choices=SOURCES, default="mariadb", help="where the databases are (mariadb)")
    parser.add_argument("--scale", type=float, default=0.5, help="TPC-H scale factor (0.5: 3.75 million rows)")
    parser.add_argument(
        "--rows",
        type=int,
        help=(
            f"of a log ({LOG_ROWS:,}), of a snapshot ({SNAPSHOT_ROWS:,}), of tables ({many_tables.TABLES:,}), of"
            f" planning ({planning.TABLES:,}), of memory-rows, of lag-snapshot ({latency.SNAPSHOT_ROWS:,}), of merge"
            f" ({merging.SMALL:,})"
        ),
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="of a log, a snapshot or merge, each side; medians are printed (5)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="of latency (120), lag-snapshot (60), fleet, replicators and idle (180): how long is measured",
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the sample databases")
    parser.add_argument("--folder", type=Path, help="where to work (kept); a temporary one by default")
    parser.add_argument(
        "--docs", type=Path, default=ROOT / "docs" / "benchmarks.md", help="file that takes the figures"
    )
    parser.add_argument("--no-docs", action="store_true", help="print only")
    asked = parser.parse_args()
    there = [name for name, one in BENCHMARKS.items() if asked.source in one.sources]
    if unknown := set(asked.only) - set(there):
        parser.error(f"there is no benchmark {unknown.pop()} of {asked.source}; there are: {', '.join(there)}")
    asked.only = asked.only or there
    return asked


def measure(asked: argparse.Namespace, folder: Path) -> bool:
    """Print the rows of the chosen benchmarks as they come, and note them; True where all goals are met."""
    met = True
    with World(folder, SOURCES[asked.source][0]) as world:
        for name in asked.only:
            found = BENCHMARKS[name].run(world, asked)
            for row in found:
                print(row.line(), flush=True)
            if not asked.no_docs:
                write_section(asked.docs, BENCHMARKS[name].title, command(name, asked), found)
            met = met and all(row.met for row in found)
    return met


def command(name: str, asked: argparse.Namespace) -> str:
    """By which this one benchmark is run again."""
    given = ["python -m benchmarks", name]
    given += [] if asked.source == "mariadb" else ["--source", asked.source]
    given += [] if asked.scale == 0.5 else ["--scale", f"{asked.scale:g}"]
    given += [] if asked.rows is None else ["--rows", str(asked.rows)]
    given += [] if asked.seconds is None else ["--seconds", f"{asked.seconds:g}"]
    given += [] if asked.repeats == 5 else ["--repeats", str(asked.repeats)]
    return " ".join(given)


def main() -> int:
    """Exit code 1 where a goal was missed."""
    asked = arguments()
    if asked.folder:
        asked.folder.mkdir(parents=True, exist_ok=True)
        met = measure(asked, asked.folder.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
            Path(folder).chmod(0o755)  # servers keep their data there, and it goes with it
            met = measure(asked, Path(folder))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
