"""Definitions that commit separately: if a worker dies between two of them, the next one goes on from there."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from replicator import faults
from replicator.errors import TargetConflict, TargetError
from replicator.faults import Fault, FaultInjected
from replicator.targets.base import Create, Drop, Evolve, Rename, Target, TargetChange, TargetTable
from tests.integration.warehouse.copies import PostgresCopies
from tests.integration.warehouse.stepwise import stepwise_target
from tests.staged import insert, schema_of
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
NAMES = itertools.count(1)
KEYED = schema_of({"id": "int", "v": "string", "w": "int", "x": "decimal(9,2)", "gone": "int"}, ["id"])
# v and w take each other's name, x is wider, gone goes, more comes.
OTHER = schema_of({"id": "bigint", "w": "string", "v": "int", "x": "decimal(12,2)", "more": "float"}, ["id"])
RENAMED = {"v": "w", "w": "v"}
BEFORE, AFTER = Counter([(1, "a", 10, None, 5)]), Counter([(1, "a", 10, None, None)])
POINTS = ("apply.step.before", "apply.step.between", "apply.step.after")


class StepwiseCopies(PostgresCopies):
    def another_worker(self, replicator: str = "r1") -> Target:
        made = stepwise_target(self.server, self.storage, replicator)
        self._opened.append(made)
        return made


@pytest.fixture
def one(postgres_source: EmbeddedPostgresSource, tmp_path: Path) -> Iterator[StepwiseCopies]:
    made = StepwiseCopies(postgres_source, tmp_path, "indexed", f"steps_{next(NAMES)}")
    yield made
    faults.disarm()
    made.close()


def filled(copies: PostgresCopies) -> TargetTable:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a", 10, None, 5))
    return table


def ended(target: Target, table: TargetTable, change: TargetChange, fault: Fault) -> bool:
    """Did the change meet the fault?"""
    faults.arm([fault])
    try:
        target.apply(table, change, "L1")
    except FaultInjected:
        return True
    finally:
        faults.disarm()
    return False


def by_name(copies: PostgresCopies, table: TargetTable, *names: str) -> Counter[tuple[object, ...]]:
    listed = ", ".join(f'"{name}"' for name in names)
    return Counter(copies.query(f"SELECT {listed} FROM {copies.place(table)}"))


@pytest.mark.parametrize("point", POINTS)
def test_columns_change_whole_whatever_ends_between_two_steps(one: StepwiseCopies, point: str) -> None:
    """Seven steps and more, each ended once; another worker's first look makes the rest."""
    change = Evolve(OTHER, 2, RENAMED)
    for hit in itertools.count(1):
        table = filled(one)
        if not ended(one.another_worker(), table, change, Fault(point, "fail", hit=hit)):
            break
        other = one.another_worker()
        at = other.position(table)
        assert at is not None
        assert (at.schema_version, at.applied) == (2, 0)
        assert other.apply(table, change, "L1").how == "skip"
        assert by_name(one, table, "id", "w", "v", "x", "more") == AFTER
        assert set(one.columns(table)) == {"id", "w", "v", "x", "more", "_sequence_num"}
        one.merge(table, OTHER, insert(1, 2, "b", 20, None, 1.5))
        assert len(one.rows(table)) == 2
    assert hit > 8


@pytest.mark.parametrize("point", POINTS)
def test_a_table_is_dropped_recreated_and_made_whatever_ends_between_two_steps(one: StepwiseCopies, point: str) -> None:
    table = filled(one)
    assert ended(one.another_worker(), table, Create(OTHER, 3, 9, "L2"), Fault(point, "fail"))
    at = one.another_worker().position(table)
    assert at is not None
    assert (at.load, at.applied, at.loaded) == ("L2", 9, -1)
    assert one.rows(table) == []
    one.target.apply(table, Drop())
    assert one.target.position(table) is None
    table = filled(one)
    assert ended(one.another_worker(), table, Drop(), Fault(point, "fail"))
    assert one.another_worker().position(table) is None
    assert one.query("SELECT to_regclass(%s)", one.place(table)) == [(None,)]
    assert one.target.apply(table, Drop(), "(none)").how == "skip"
    one.target.apply(table, Create(KEYED, 1, -1, "L3"), "(none)")
    one.merge(table, KEYED, insert(0, 1, "a", 10, None, 5))
    assert Counter(one.rows(table)) == BEFORE
    new = TargetTable(table.namespace, f"new_{next(NAMES)}")
    faults.arm([Fault(point, "fail")])
    with pytest.raises(FaultInjected):
        one.target.apply(new, Create(KEYED, 1, -1, "L1"), "(none)")
    faults.disarm()
    at = one.another_worker().position(new)
    assert at is not None
    assert at.load == "L1"
    assert one.rows(new) == []


@pytest.mark.parametrize("first", ["old", "new"])
@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_a_rename_is_done_or_undone(one: StepwiseCopies, point: str, first: str, elsewhere: bool) -> None:
    """Whichever name is looked at first."""
    table = filled(one)
    new = TargetTable(f"{one.namespace}_b" if elsewhere else one.namespace, f"{table.name}_new")
    assert ended(one.another_worker(), table, Rename(new), Fault(point, "fail"))
    other = one.another_worker()
    found = {name: other.position(name) for name in ([table, new] if first == "old" else [new, table])}
    (there,) = [name for name, at in found.items() if at is not None]
    assert there == (new if point == "apply.step.after" else table)
    assert Counter(one.rows(there)) == BEFORE
    if there == table:
        assert other.apply(table, Rename(new), "L1").how == "rename"
    assert Counter(one.rows(new)) == BEFORE
    assert other.position(table) is None
    one.target.apply(new, Rename(table), "L1")
    one.merge(table, KEYED, insert(1, 2, "b", 20, None, 6))
    assert len(one.rows(table)) == 2


def test_what_is_pending_does_not_keep_a_table_from_being_dropped_or_made_again(one: StepwiseCopies) -> None:
    """A view keeps a column: the change cannot be made, and the table is stuck until it is made again."""
    table = filled(one)
    one.query(f'CREATE VIEW {one.place(table)[:-1]}_view" AS SELECT gone FROM {one.place(table)}')
    with pytest.raises(TargetError, match="depend"):
        one.target.apply(table, Evolve(OTHER, 2, RENAMED), "L1")
    at = one.another_worker().position(table)
    assert at is not None
    assert (at.load, "depend" in str(at.error)) == ("L1", True)
    one.query(f'DROP VIEW {one.place(table)[:-1]}_view"')
    one.target.apply(table, Create(KEYED, 3, 7, "L2"), "L1")
    assert one.rows(table) == []


def test_a_table_that_another_has_made_meanwhile_is_not_taken(one: StepwiseCopies) -> None:
    table = TargetTable(one.namespace, f"late_{next(NAMES)}")
    filled(one)  # the schema is there
    faults.arm([Fault("apply.step.before", "fail")])
    with pytest.raises(FaultInjected):
        one.target.apply(table, Create(KEYED, 1, -1, "L1"), "(none)")
    faults.disarm()
    one.query(f"CREATE TABLE {one.place(table)} AS SELECT 1 AS id")
    with pytest.raises(TargetConflict, match="not created by this replicator"):
        one.another_worker().position(table)
    with pytest.raises(TargetConflict):
        one.another_worker("r2").apply(table, Create(KEYED, 1, -1, "L9"))
    assert one.query(f"SELECT count(*) FROM {one.place(table)}") == [(1,)]


def test_of_several_workers_each_change_of_columns_is_made_once(one: StepwiseCopies) -> None:
    """They begin at the same time; all but one are refused, skip it, or find it made."""
    for _ in range(5):
        table, barrier = filled(one), threading.Barrier(4)

        def change(_: int, table: TargetTable = table, barrier: threading.Barrier = barrier) -> str:
            target = one.another_worker()
            barrier.wait()
            for _ in range(50):
                try:
                    return target.apply(table, Evolve(OTHER, 2, RENAMED), "L1").how
                except TargetError:
                    continue
            return "never"

        with ThreadPoolExecutor(4) as pool:
            found = Counter(pool.map(change, range(4)))
        assert found["never"] == 0
        assert found["evolve"] <= 1
        assert by_name(one, table, "id", "w", "v", "x", "more") == AFTER


def test_of_workers_that_make_one_table_one_is_refused(one: StepwiseCopies) -> None:
    barrier = threading.Barrier(4)

    def make(number: int) -> str:
        target = one.another_worker()
        barrier.wait()
        try:
            return target.apply(TargetTable(one.namespace, "same"), Create(KEYED, 1, -1, f"L{number}"), "(none)").how
        except TargetError:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        found = Counter(pool.map(make, range(4)))
    assert found["create"] <= 1
    at = one.another_worker().position(TargetTable(one.namespace, "same"))
    assert found["create"] == 0 or at is not None
