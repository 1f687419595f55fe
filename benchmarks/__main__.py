"""`python -m benchmarks [ONLY …] [--source mariadb|postgres] [--scale 0.5]`: run, print figures, note them in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import datasets, initial_load, postgres_datasets
from benchmarks.report import Row, write_section
from benchmarks.sources import MariaDBSource, PostgresSource, Source
from benchmarks.world import ROOT, World

DATA = ROOT.parent / "shared" / "data"
SOURCES: dict[str, tuple[Callable[[Path], Source], Any]] = {
    "mariadb": (MariaDBSource, datasets),
    "postgres": (PostgresSource, postgres_datasets),
}
# of a source's datasets, what was asked, a folder for temporary files
BENCHMARKS: dict[str, Callable[[Any, argparse.Namespace, Path], datasets.Dataset[Any]]] = {
    "employees": lambda made, asked, _: made.employees(asked.data),
    "chinook": lambda made, asked, _: made.chinook(asked.data),
    "tpch": lambda made, asked, folder: made.tpch(asked.scale, folder / "tpch"),
}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="ONLY", help=f"of {', '.join(BENCHMARKS)}; all by default")
    parser.add_argument("--source", choices=SOURCES, default="mariadb", help="where the databases are (mariadb)")
    parser.add_argument("--scale", type=float, default=0.5, help="TPC-H scale factor (0.5: 3.75 million rows)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the sample databases")
    parser.add_argument("--folder", type=Path, help="where to work (kept); a temporary one by default")
    parser.add_argument(
        "--docs", type=Path, default=ROOT / "docs" / "benchmarks.md", help="file that takes the figures"
    )
    parser.add_argument("--no-docs", action="store_true", help="print only")
    asked = parser.parse_args()
    if unknown := set(asked.only) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {unknown.pop()}; there are: {', '.join(BENCHMARKS)}")
    return asked


def measure(asked: argparse.Namespace, folder: Path) -> list[Row]:
    """All rows of the chosen benchmarks, printed as they come."""
    rows: list[Row] = []
    source, made = SOURCES[asked.source]
    with World(folder, source) as world:
        for name in asked.only or BENCHMARKS:
            found = initial_load.run(world, BENCHMARKS[name](made, asked, folder))
            for row in found:
                print(row.line(), flush=True)
            rows += found
    return rows


def main() -> int:
    """Exit code 1 where a goal was missed."""
    asked = arguments()
    if asked.folder:
        asked.folder.mkdir(parents=True, exist_ok=True)
        rows = measure(asked, asked.folder.resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
            rows = measure(asked, Path(folder))
    if not asked.no_docs:
        given = [] if asked.source == "mariadb" else ["--source", asked.source]
        given += [*asked.only, *([] if asked.scale == 0.5 else ["--scale", f"{asked.scale:g}"])]
        write_section(asked.docs, "initial load", " ".join(["python -m benchmarks", *given]), rows)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
