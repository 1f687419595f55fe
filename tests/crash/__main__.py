"""`python -m tests.crash --histories N --seed S --source mariadb|mysql|postgres|sqlserver|oracle`: all faults.

Ends with one line `histories N, events N, faults N, differences N`; exit 1 where the last number is not 0.  A history
that ends with a difference is written to `--findings` with its seed, its plan and what differed, and is made smaller
there.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from testing.workload.histories import MEDIUM, SMALL, generate
from testing.workload.mysql import kinds
from testing.workload.shrinker import shrink
from testing.workload.workload import History
from tests.crash.harness import Stand
from tests.crash.plan import FAILED_OVER, Deck, Plan, fault_table
from tests.crash.sources import SOURCES

EXAMPLES = 3


@contextmanager
def folder_of_run() -> Iterator[Path]:
    """Servers can enter it: their data go with it."""
    with tempfile.TemporaryDirectory(prefix="tidemark-crash-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _parsed(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through the blocks that leave nothing behind
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**9)
    caseless = _caseless(options, seed)
    names = ", names compared without case" if caseless else ""
    print(f"seed {seed}, source {options.source} {options.version}".rstrip() + names, flush=True)
    with (
        folder_of_run() as folder,
        Stand(
            folder,
            options.source,
            options.version,
            caseless=caseless,
            catalog=options.catalog,
            store=options.store,
            neighbour=options.neighbour,
        ) as stand,
    ):
        run = Run(stand, seed, options)
        if options.replay:
            run.replay(options.replay)
        else:
            run.histories(options.only or range(options.histories))
        return run.summary()


def _caseless(options: argparse.Namespace, seed: int) -> bool:
    """Of MariaDB and MySQL, by the seed where nothing says it."""
    if options.source in {"postgres", "sqlserver", "oracle"}:
        return False
    if options.replay:
        return bool(json.loads(options.replay.read_text()).get("caseless", False))
    return random.Random(f"names {seed}").random() < 0.5 if options.names is None else bool(options.names)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one, printed")
    parser.add_argument("--source", choices=sorted(SOURCES), default="mariadb")
    parser.add_argument(
        "--version",
        default="",
        help="of Postgres: 13 to 18, by default 17; of MariaDB: 10.11, by default 11.4; of SQL Server: tracking, where "
        "Change Tracking is read, or secondary, where a readable secondary is",
    )
    parser.add_argument(
        "--catalog",
        choices=("built_in", "rest", "glue", "delta", "postgres", "redshift", "snowflake", "bigquery", "spanner"),
        default="built_in",
        help="which has the copies",
    )
    parser.add_argument(
        "--store", choices=("file", "s3"), default="file", help="where the copies are; not of built_in; of glue: s3"
    )
    parser.add_argument("--neighbour", action="store_true", help="another program works on the copies")
    parser.add_argument(
        "--names", type=int, choices=(0, 1), help="lower_case_table_names of MariaDB and MySQL; default: by the seed"
    )
    parser.add_argument("--only", type=int, nargs="+", help="these histories of the seed alone, by number from 0")
    parser.add_argument("--replay", type=Path, help="a file from the findings folder")
    parser.add_argument("--findings", type=Path, default=Path("var/findings"))
    parser.add_argument(
        "--at-once",
        type=int,
        default=2,
        help="histories at a time; with 1, each has its metadata database set back, too",
    )
    parser.add_argument("--shrink", type=float, default=300.0, help="seconds to make a failing history smaller; 0: not")
    parser.add_argument("--table", type=Path, help="write the fault table as Markdown to this file")
    options = parser.parse_args(arguments)
    if (options.catalog, options.store) == ("built_in", "s3"):
        parser.error("--store s3 needs another catalog than built_in")
    return options


class Run:
    """Many trials on one stand."""

    def __init__(self, stand: Stand, seed: int, options: argparse.Namespace) -> None:
        """See `_parsed`."""
        self.stand, self.seed, self.options = stand, seed, options
        self._lock = threading.Lock()
        self._done = self._events = self._states = self._late = self._rows = self._differences = 0
        self._faults: Counter[str] = Counter()
        self._failing: list[tuple[str, History, Plan]] = []
        self._started = time.monotonic()

    def histories(self, numbers: Sequence[int]) -> None:
        """Play them, some at a time; then make the failing ones smaller, one by one."""
        deck = Deck(self.seed, self.options.source, self.options.version, alone=self.options.at_once == 1)
        plans = [deck.deal() for _ in range(max(numbers) + 1)]
        with ThreadPoolExecutor(self.options.at_once) as pool:
            try:
                list(pool.map(lambda number: self._one(number, plans[number]), numbers))
            finally:  # at SIGTERM: those that have not begun do not begin
                pool.shutdown(wait=False, cancel_futures=True)
        for name, history, plan in self._failing[:EXAMPLES]:
            self._shrink(name, history, plan)

    def replay(self, path: Path) -> None:
        """A finding, as it was written."""
        found = json.loads(path.read_text())
        self._play(path.stem, History.from_json(json.dumps(found["history"])), Plan.from_dict(found["plan"]))

    def summary(self) -> int:
        """Prints the table and the line."""
        if self.stand.lake is not None:
            self._faults += self.stand.lake.made
        table = fault_table(self._faults)
        if self.options.table:
            self.options.table.write_text(table + "\n")
        print(table)
        print(f"{self._states} states of the witness tables were read, each the source after a whole transaction; "
              f"{self._late} scans were read long after they were planned; "
              f"{time.monotonic() - self._started:.0f} s, seed {self.seed}")  # fmt: skip
        print(f"histories {self._done}, events {self._events}, faults {self._faults.total()}, "
              f"differences {self._differences}", flush=True)  # fmt: skip
        return 1 if self._differences else 0

    def _one(self, number: int, plan: Plan) -> None:
        size = MEDIUM if number % 10 == 9 else SMALL
        if self.options.catalog in {"postgres", "redshift"}:
            kinds.NUL = "nul"
        history = generate(
            self.seed * 100_003 + number, self.options.source, size, self.stand.source.version,
            unkilled=not {"source killed", FAILED_OVER} & set(plan.outer), caseless=self.stand.caseless,
        )  # fmt: skip
        name = f"h{self.seed}_{number}"
        try:
            if not self._play(name, history, plan):
                self._failing.append((name, history, plan))
        except Exception:  # noqa: BLE001 - a fault of the harness fails the run, but not the other histories
            traceback.print_exc()
            with self._lock:
                self._differences += 1

    def _play(self, name: str, history: History, plan: Plan) -> bool:
        from tests.crash.history_run import Trial

        result = Trial(self.stand, name, history, plan, self.options.findings).run()
        with self._lock:
            self._done += 1
            self._events += result.events
            self._states += result.states
            self._late += result.late
            self._differences += len(result.differences)
            self._faults.update(result.faults)
            if self.stand.sparks.worn:
                self.stand.sparks.kill()
        verdict = (
            f"{result.tables} tables equal"
            + (f", {result.shared} of them share a target table" if result.shared else "")
            if not result.differences
            else "\n  ".join(["NOT EQUAL", *result.differences])
        )
        print(
            f"{name}: {result.events} events, {result.faults.total()} faults, {result.seconds:.0f} s: {verdict}",
            flush=True,
        )
        if result.differences:
            self._write(name, history, plan, result.differences)
        return not result.differences

    def _write(self, name: str, history: History, plan: Plan, differences: list[str]) -> None:
        self.options.findings.mkdir(parents=True, exist_ok=True)
        found = {
            "source": self.options.source, "version": self.options.version, "differences": differences,
            "plan": plan.to_dict(),
            "caseless": self.stand.caseless,
            "history": json.loads(history.to_json()),
        }  # fmt: skip
        (self.options.findings / f"{name}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False))

    def _shrink(self, name: str, history: History, plan: Plan) -> None:
        if not self.options.shrink:
            return
        from tests.crash.history_run import Trial

        attempts = 0

        def fails(smaller: History) -> bool:
            nonlocal attempts
            attempts += 1
            return bool(Trial(self.stand, f"{name}_{attempts}", smaller, plan, self.options.findings).run().differences)

        smallest = shrink(history, fails, self.options.shrink)
        result = Trial(self.stand, f"{name}_smallest", smallest, plan, self.options.findings).run()
        self._write(f"{name}-smallest", smallest, plan, result.differences)
        steps = sum(len(phase.steps) for phase in smallest.phases)
        print(f"{name}: smallest that still failed has {steps} steps, after {attempts} attempts; "
              f"replay it with --replay {self.options.findings / f'{name}-smallest.json'}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
