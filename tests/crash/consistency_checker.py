"""Two tables whose every committed state is known: every state that the target ever showed must be one of them, in
order.

That is invariants 4 (never back), 5 (no snapshot row over a newer one, none resurrected) and 6 (a transaction whole or
not at all), checked on what a reader could have seen, not on the end alone.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from tests.crash.sources import SourceUnderTest

ACCOUNTS, ROOM, OPENING = 60, 80, 100
KEYED, KEYLESS = "witness", "witness_log"
PAUSE = 0.012
PATIENCE_SECONDS = 60.0
CLOCKS = timedelta(seconds=2)
APPLIED, LOAD = "tidemark.applied", "tidemark.load"  # of a snapshot's summary; docs/ARCHITECTURE.md

State = dict[Any, Any]


@dataclass
class Made:
    """Row events of the transactions that were committed."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0


class Writer:
    """One session; `states[table][t]` is what the table holds after transaction t."""

    def __init__(self, source: SourceUnderTest, name: str, seed: str) -> None:
        """`name`: the history's."""
        self._source, self._name, self._random = source, name, random.Random(seed)
        self._errors: tuple[type[Exception], ...] = (*source.errors, OSError)
        self._rows: dict[int, tuple[int, int, int]] = dict.fromkeys(range(ACCOUNTS), (1, OPENING, 0))
        self._versions = dict.fromkeys(range(ROOM), 1)
        self._log: Counter[tuple[int, int]] = Counter({(0, n % 3): 4 for n in range(3)})
        self.states: dict[str, list[State]] = {KEYED: [], KEYLESS: []}
        self.made = {KEYED: Made(), KEYLESS: Made()}
        self.numbered = source.nets_changes  # the keyless table has a key there, and is loaded in chunks
        self._keep()

    def prepare(self) -> None:
        """Make both tables with their first rows."""
        made = f"CREATE TABLE {KEYED} (id INT PRIMARY KEY, v BIGINT, amount INT, stamp BIGINT)"
        keyless = self._source.made_keyless(f"CREATE TABLE {KEYLESS} (t BIGINT, n INT)", KEYLESS)
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            for statement in (made, *keyless):
                cursor.execute(statement)
            cursor.executemany(f"INSERT INTO {KEYED} VALUES (%s, 1, {OPENING}, 0)", [(n,) for n in self._rows])
            cursor.executemany(f"INSERT INTO {KEYLESS} VALUES (%s, %s)", list(self._log.elements()))

    def _connect(self) -> Any:
        return self._source.connect(self._name)

    def write(self, stopped: Callable[[], bool]) -> None:
        """Transactions until stopped; where a commit's fate is unknown, the table is asked."""
        while not stopped():
            with suppress(*self._errors):
                self._session(stopped)
            time.sleep(0.2)

    def _session(self, stopped: Callable[[], bool]) -> None:
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            while not stopped():
                t = len(self.states[KEYED])
                rows, versions, log = dict(self._rows), dict(self._versions), self._log.copy()
                made = {name: Made(**vars(counts)) for name, counts in self.made.items()}
                try:
                    statements = self._transaction(t)
                    for statement in ("BEGIN", *statements, "COMMIT"):
                        cursor.execute(statement)
                except self._errors:
                    with suppress(*self._errors):
                        connection.close()  # a transaction that one statement left open would lock out who asks
                    if not self._happened(t):
                        self._rows, self._versions, self._log, self.made = rows, versions, log, made
                        raise
                    self._keep()
                    raise
                self._keep()
                time.sleep(PAUSE)

    def _happened(self, t: int) -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(*self._errors), closing(self._connect()) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT MAX(stamp) FROM {KEYED}")
                return bool(cursor.fetchone() == (t,))
            time.sleep(0.2)
        raise AssertionError("the source did not come back")

    def _keep(self) -> None:
        self.states[KEYED].append(dict(self._rows))
        self.states[KEYLESS].append(dict(self._log))

    def _transaction(self, t: int) -> list[str]:
        """Money moves, never comes or goes; every transaction leaves its number on a row of each table."""
        steps: list[str] = []
        for _ in range(self._random.choice((1, 1, 2, 5))):
            steps += self._random.choice(
                (self._transfer, self._transfer, self._close, self._open, self._move, self._again)
            )(t)
        if not steps:
            steps = self._transfer(t)
        return steps + self._note(t)

    def _two(self) -> tuple[int, int]:
        one, other = self._random.sample(sorted(self._rows), 2)
        return one, other

    def _set(self, key: int, amount: int, t: int) -> str:
        self._versions[key] += 1
        self._rows[key] = (self._versions[key], amount, t)
        self.made[KEYED].updates += 1
        return f"UPDATE {KEYED} SET v = {self._versions[key]}, amount = {amount}, stamp = {t} WHERE id = {key}"

    def _transfer(self, t: int) -> list[str]:
        one, other = self._two()
        moved = self._random.randint(1, 50)
        return [self._set(one, self._rows[one][1] - moved, t), self._set(other, self._rows[other][1] + moved, t)]

    def _close(self, t: int) -> list[str]:
        one, other = self._two()
        if len(self._rows) < ACCOUNTS // 2:
            return []
        amount = self._rows.pop(one)[1]
        self.made[KEYED].deletes += 1
        return [f"DELETE FROM {KEYED} WHERE id = {one}", self._set(other, self._rows[other][1] + amount, t)]

    def _insert(self, key: int, amount: int, t: int) -> str:
        self._versions[key] += 1
        self._rows[key] = (self._versions[key], amount, t)
        self.made[KEYED].inserts += 1
        return f"INSERT INTO {KEYED} VALUES ({key}, {self._versions[key]}, {amount}, {t})"

    def _open(self, t: int) -> list[str]:
        free = sorted(set(range(ROOM)) - set(self._rows))
        if not free:
            return []
        key, (one, _) = self._random.choice(free), self._two()
        return [self._insert(key, 5, t), self._set(one, self._rows[one][1] - 5, t)]

    def _move(self, t: int) -> list[str]:
        """A key that changes."""
        free = sorted(set(range(ROOM)) - set(self._rows))
        if not free:
            return []
        key, (one, _) = self._random.choice(free), self._two()
        amount = self._rows.pop(one)[1]
        self._versions[key] += 1
        self._rows[key] = (self._versions[key], amount, t)
        moved = 1 if self._source.moves_are_updates else 0
        self.made[KEYED].updates += moved
        self.made[KEYED].deletes += 1 - moved
        self.made[KEYED].inserts += 1 - moved
        return [f"UPDATE {KEYED} SET id = {key}, v = {self._versions[key]}, stamp = {t} WHERE id = {one}"]

    def _again(self, t: int) -> list[str]:
        """Delete and insert of one key."""
        one, _ = self._two()
        amount = self._rows.pop(one)[1]
        self.made[KEYED].deletes += 1
        return [f"DELETE FROM {KEYED} WHERE id = {one}", self._insert(one, amount, t)]

    def _note(self, t: int) -> list[str]:
        """Rows without key: some are equal; one of several equal rows goes, one changes."""
        made, new = self.made[KEYLESS], (t, t % 3)
        count = self._random.randint(1, 3)
        self._log[new] += count
        made.inserts += count
        steps = [f"INSERT INTO {KEYLESS} VALUES {', '.join([str(new)] * count)}"]
        old = [row for row in sorted(self._log) if row != new]
        if len(old) > 20 or self._random.random() < 0.3:
            gone = self._random.choice(old)
            self._log -= Counter({gone: 1})
            made.deletes += 1
            steps.append(self._one_of(f"DELETE FROM {KEYLESS}", gone))
        old = [row for row in sorted(self._log) if row != new]
        if old and self._random.random() < 0.5:
            was = self._random.choice(old)
            self._log -= Counter({was: 1})
            self._log[was[0], was[1] + 10] += 1
            made.updates += 1
            steps.append(self._one_of(f"UPDATE {KEYLESS} SET n = n + 10", was))
        return steps

    def _one_of(self, verb: str, row: tuple[int, int]) -> str:
        return self._source.one_of(verb, KEYLESS, f"t = {row[0]} AND n = {row[1]}")


@dataclass
class _Seen:
    """One target table as observed so far."""

    table: str
    uuid: str = ""
    snapshots: set[int] = field(default_factory=set)
    base: int | None = None
    last: int = -1
    versions: dict[int, int] = field(default_factory=dict)


class Looked:
    """What was seen of the witness tables, held against what the writer has made."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._begun = datetime.now(UTC) - CLOCKS
        self._seen = {name: _Seen(name) for name in (KEYED, KEYLESS)}
        self.trouble: Exception | None = None
        self.states = 0
        self.violations: list[str] = []

    def look(self) -> None:
        """All states that are new since the last look."""
        raise NotImplementedError

    def watch(self, stopped: Callable[[], bool]) -> None:
        """Until stopped; what cannot be read just now is read at the next look."""
        while not stopped():
            self.look()
            time.sleep(0.3)

    def _check(self, seen: _Seen, rows: list[dict[str, Any]], summary: dict[str, str]) -> None:
        applied = int(summary.get(APPLIED, -1))
        if seen.base is None:
            seen.base = applied
        if seen.table == KEYLESS:
            loaded = applied > seen.base if self._writer.numbered else bool(rows) or seen.last >= 0
            if loaded:
                self._whole(
                    seen,
                    dict(Counter((row["t"], row["n"]) for row in rows)),
                    max((row["t"] for row in rows), default=0),
                )
            return
        for row in rows:
            self._computed(row)
        found = {row["id"]: (row["v"], row["amount"], row["stamp"]) for row in rows}
        assert len(found) == len(rows), f"{KEYED}: a key twice"
        for key, (version, _, _) in found.items():
            assert version >= seen.versions.get(key, 0), f"{KEYED}: key {key} went back to version {version}"
            seen.versions[key] = version
        if applied > seen.base:  # the initial load is over: merges only
            self._whole(seen, found, max((row["stamp"] for row in rows), default=0))

    def _computed(self, row: dict[str, Any]) -> None:
        """What the plan's computed columns tell of the row's last change."""
        at, place = row.get("made_at", self._begun), row.get("place")
        assert at is not None, f"{KEYED}: key {row['id']} has no commit time"
        assert self._begun <= at <= datetime.now(UTC) + CLOCKS, f"{KEYED}: key {row['id']} was committed at {at}"
        if "made_by" in row:
            known = (
                (place is None) if row["made_by"] == "READ" else bool(place) and row["made_by"] in {"INSERT", "UPDATE"}
            )
            assert known, f"{KEYED}: key {row['id']} has the operation {row['made_by']} and the offset {place}"

    def _whole(self, seen: _Seen, found: State, t: int) -> None:
        assert t >= seen.last, f"{seen.table}: went back from transaction {seen.last} to {t}"
        seen.last = t
        expected = self._expected(seen.table, t)
        if expected != found:
            wrong = {key: (expected.get(key), found.get(key)) for key in expected.keys() | found.keys()}
            wrong = {key: pair for key, pair in wrong.items() if pair[0] != pair[1]}
            raise AssertionError(f"{seen.table}: not the state after transaction {t}: (source, target) {wrong}")

    def _expected(self, table: str, t: int) -> State:
        """The writer learns of a commit a moment after the log has it."""
        states = self._writer.states[table]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while t >= len(states) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert t < len(states), f"{table}: transaction {t} was never made"
        return states[t]


class Reader(Looked):
    """Looks at every state that becomes current in an Iceberg table, in flight and once more at the end."""

    def __init__(self, catalog: Callable[[], Catalog], namespace: str, writer: Writer) -> None:
        """`catalog` opens one; `namespace` is where the replicator's tables lie."""
        super().__init__(writer)
        self._open, self._namespace = catalog, namespace

    def look(self) -> None:
        """All states that are new since the last look."""
        try:
            catalog = self._open()
        except Exception:  # noqa: BLE001 - the metadata database is down
            return
        try:
            for seen in self._seen.values():
                with suppress(NoSuchTableError, NoSuchNamespaceError):
                    self._look(catalog.load_table((self._namespace, seen.table)), seen)
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a restart of the metadata database, a file that was just replaced
            self.trouble = error
        finally:
            catalog.close()

    def _look(self, table: Table, seen: _Seen) -> None:
        if str(table.metadata.table_uuid) != seen.uuid:  # made, or made again
            seen.uuid, seen.base = str(table.metadata.table_uuid), None
        for entry in table.history():
            if entry.snapshot_id in seen.snapshots:
                continue
            snapshot = table.snapshot_by_id(entry.snapshot_id)
            if snapshot is not None:
                rows = table.scan(snapshot_id=entry.snapshot_id).to_arrow().to_pylist()
                summary = snapshot.summary.additional_properties if snapshot.summary else {}
                self._check(seen, rows, summary)
                self.states += 1
            seen.snapshots.add(entry.snapshot_id)
