"""Which faults a history suffers: dealt from one deck, so that every fault is played about equally often in a run."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from replicator.faults import POINTS, Fault
from tests.crash.harness import LEASE_SECONDS
from tests.crash.late_reader import GRACE_SECONDS

STALL_SECONDS = 2 * LEASE_SECONDS + 1
STORAGE = ("storage.", "segment.", ".file.")
# Not reached by a worker that captures and merges; other tests play them.
ELSEWHERE = ("garbage.", "delete.")
# Played by the trial itself, on the worker that runs at that time.
OUTER = (
    "source killed", "source restarted", "metadata database restarted", "connection cut in mid-packet",
    "connection cut",
    "connection hangs", "connection refused", "Spark killed", "worker killed", "worker frozen beyond its lease",
    "two workers at once", "tables asked to be read anew", "paused and resumed",
    "parts of tables asked to be read", "tables taken out and in again", "the source answers errors",
    "tables upgraded to format version 3", "tables partitioned otherwise",
)  # fmt: skip
FAILED_OVER, REDO_HELD = "the availability group fails over", "the secondary redoes nothing for a while"
RESTORED = "data folder restored"  # on a server of the history's own
METADATA_RESTORED = "metadata database restored"  # of a history that has the stand for itself
OUTER_OF = {
    "postgres": ("connections ended by the server", "connection cut inside a message of the log", RESTORED),
    "mariadb": (RESTORED,),
    "mysql": (RESTORED,),
    "sqlserver": (RESTORED,),
    "sqlserver secondary": (RESTORED, *(FAILED_OVER, REDO_HELD) * 3),
    "oracle": (RESTORED,),
}
# By Tidemark's own column, which every table has and every change changes: a row moves from partition to partition.
PARTITIONS = (
    "",
    "*.*: bucket(3, _sequence_num)",
    "*.witness: bucket(4, id), truncate(1000, stamp)\n*.witness_log: t\n*.*: truncate(500, _sequence_num)",
)
INNER_EACH, OUTER_EACH = 8, 2
# Tables are renamed into these rules and out of them; the witness tables stay where they are.
SHARED = """*.t?: {schema}.all with t shared by its table = {table}
    *.t??: {schema}.all with t shared by its table = {table}
    *.*a*: {schema}.all with a shared by of the source = it's {table}"""
ROUTING = (
    "",
    "*.*a*: {schema}_a.{table}",
    "*.*e*e*: {schema}_{1}.{2}e{3}e{4}\n*.*a*: {schema}_a.{table}~",
    SHARED,
    SHARED,
)
COMPUTED = (
    "",
    "*.*: made by history = 'it''s one'\n*.witness: v_text = cast(v as string), made_at = commit_time",
    """*.*a*: letter = 'a', wanted = true
    *.*: history = 7
    *.witness: made_by = operation, made_at = commit_time, place = offset, v_wide = cast(v as decimal(25, 3))
    *.witness_log: n_text = cast(n as string), t_wide = cast(t as decimal(19, 0))""",
)
ACTIONS = ("kill", "fail", "stall", "full")


@dataclass
class Plan:
    """A history's faults and circumstances; `config` is what the connection to the source says beyond its address,
    `target` what the replicator sets of its target.
    """

    inner: list[Fault] = field(default_factory=list)
    outer: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    target: dict[str, str] = field(default_factory=dict)
    tuning: dict[str, Any] = field(default_factory=dict)
    head_start: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "inner": [asdict(fault) for fault in self.inner]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Plan:
        return cls(**{**data, "inner": [Fault(**fault) for fault in data["inner"]]})


# Postgres' log is read as a backlog, in slices of few messages (sources/postgres/stream/catch_up.py).
_BACKLOG = {
    f"replicator.sources.postgres.stream.catch_up.{name}": value
    for name, value in {"FAR": 0, "_NEAR": 2_000, "_FIRST": 20, "_MOST": 300, "_REACH": 20_000, "_KEPT": 10_000}.items()
}


class Deck:
    """Cards are dealt until they are out, then shuffled again."""

    def __init__(self, seed: int, source: str = "mariadb", version: str = "", *, alone: bool = False) -> None:
        """The same seed, source, version and `alone`, the same hands.  alone: one history at a time has the stand, and
        its metadata database goes back.
        """
        of_version = f"{source} {version}"
        self._source, self._alone = of_version if of_version in OUTER_OF else source, alone
        self._outside = (*OUTER, *OUTER_OF.get(self._source, ()))
        self._random = random.Random(f"deck {seed}")
        self._inner: list[tuple[str, str]] = []
        self._outer: list[str] = []

    def deal(self) -> Plan:
        """The next history's plan."""
        hand = self._random
        outer = [self._draw_outer() for _ in range(OUTER_EACH)]
        if self._alone:
            outer.insert(
                hand.choice((1, 2)), METADATA_RESTORED
            )  # it is the first or second to come: a history may end before the last
        return Plan(
            inner=[self._fault(*self._draw_inner()) for _ in range(INNER_EACH)],
            outer=outer,
            options={
                "snapshot_parallel": hand.choice((1, 2, 3)),
                "merge_parallel": hand.choice((1, 2, 3)),
                "zero_dates": hand.choice(("null", "text")),
                "retention_steps": hand.choice(("", "10s/1s 60s/5s", "30s/1s")),
                "deletion_grace_hours": GRACE_SECONDS / 3600,
            },
            tuning={
                "replicator.snapshot.sizing.START_ROWS": hand.choice((7, 20, 100)),
                "replicator.snapshot.sizing.MAX_ROWS": 1000,
                "replicator.engine.capture.capture.IDLE_COMMIT_SECONDS": 0.5,
                "replicator.engine.capture.capture.SMALL_SECONDS": hand.choice((0.0, 0.25)),
                "replicator.targets.iceberg.direct.writer.ROWS": hand.choice((400, 1_000_000)),
                "replicator.targets.iceberg.upkeep.maintenance.NEW_SNAPSHOTS": hand.choice((5, 60)),
                "replicator.targets.iceberg.upkeep.maintenance.EXPIRY_SECONDS": 5,
                "replicator.targets.iceberg.upkeep.maintenance.DELETION_SECONDS": 2,
                "replicator.targets.iceberg.upkeep.maintenance.MAX_SMALL_FILES": hand.choice((20, 60)),
                "replicator.targets.delta.maintenance.DELETION_SECONDS": 2,
                "replicator.targets.delta.maintenance.MAX_SMALL_FILES": hand.choice((3, 16)),
                "replicator.targets.delta.apply.MEMORY": (memory := hand.choice((1, 20_000, 1 << 27))),
                "replicator.targets.warehouse.changes.MEMORY": memory,
                "replicator.targets.spanner.names.MAX_MUTATIONS": 400 if memory == 1 else 40_000,
                "replicator.staging.writer.SPILL_BYTES": hand.choice((2_000, 50_000, 32 * 1024 * 1024)),
                **(_BACKLOG if memory == 20_000 else {}),
            },
            head_start=hand.choice((0.0, 0.0, 1.0, 3.0)),
            config=self._config(),
            target={
                "partition_by": hand.choice(PARTITIONS),
                "format_version": hand.choice(("2", "3")),
                "bloom_filters": hand.choice(("no", "yes")),
                "routing": hand.choice(ROUTING),
                "computed_columns": hand.choice(COMPUTED),
            },
        )

    def _config(self) -> dict[str, Any]:
        choices = {"postgres": ("event_trigger", ("yes", "no")), "oracle": ("committed", ("server", "tidemark"))}
        if self._source not in choices:
            return {}
        name, values = choices[self._source]
        return {name: self._random.choice(values)}

    def _draw_inner(self) -> tuple[str, str]:
        if not self._inner:
            actions = ("kill", "fail", "stall")
            self._inner = [(point, action) for point in POINTS if not point.startswith(ELSEWHERE) for action in actions]
            self._inner += [(point, "full") for point in POINTS if any(part in point for part in STORAGE)]
            self._random.shuffle(self._inner)
        return self._inner.pop()

    def _draw_outer(self) -> str:
        if not self._outer:
            self._outer = list(self._outside)
            self._random.shuffle(self._outer)
        return self._outer.pop()

    def _fault(self, point: str, action: str) -> Fault:
        seconds = STALL_SECONDS if action == "stall" else 0.0
        return Fault(point, action, hit=self._random.choice((1, 1, 2, 3)), seconds=seconds)


def fault_table(faults: Counter[str]) -> str:
    """Markdown: edges by action, then what came from outside."""
    edges = sorted({name.partition(": ")[0] for name in faults if ": " in name})
    lines = [f"| edge | {' | '.join(ACTIONS)} |", "|---" * (len(ACTIONS) + 1) + "|"]
    lines += [
        f"| `{edge}` | {' | '.join(str(faults[f'{edge}: {action}'] or '') for action in ACTIONS)} |" for edge in edges
    ]
    outside = sorted((name, count) for name, count in faults.items() if ": " not in name)
    return "\n".join(
        [*lines, "", "| from outside | times |", "|---|---|", *(f"| {name} | {count} |" for name, count in outside)]
    )
