"""What ends, is cut, or is done by two at a time, in every warehouse: it is done once, and whole, or not at all.

That rows change with their position is in the contract of targets; here is what only warehouses have.
"""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from random import Random
from typing import Any

import pytest

from replicator import faults
from replicator.errors import TargetError
from replicator.faults import POINTS, Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.targets.base import Create, Drop, Evolve, Merge, Rename, TargetChange, TargetTable
from tests.integration.warehouse.copies import KEYED, Copies
from tests.integration.warehouse.places import NAMES, WAREHOUSES
from tests.staged import Change, Row, delete, insert, schema_of, update

pytestmark = pytest.mark.integration
WIDER = schema_of({"id": "bigint", "v": "string", "w": "float"}, ["id"])
KEYLESS = schema_of({"v": "string", "f": "double"})
ROWS = Counter([(1, "a"), (2, "b")])
CHANGES: dict[str, TargetChange] = {"create": Create(WIDER, 2, 9, "L2"), "evolve": Evolve(WIDER, 2), "drop": Drop()}
LEFT = ("_tidemark_stage", "_tidemark_rebuilt", "tidemark_new", "tidemark_old")  # tables of a change under way
everywhere = pytest.mark.parametrize("copies", WAREHOUSES, indirect=True)


def points(copies: Copies, change: str) -> list[str]:
    """Within a definition."""
    return [point for point in POINTS if point.startswith("apply.step." if copies.stepwise else f"apply.{change}.")]


def ends(copies: Copies, table: TargetTable, change: TargetChange, point: str) -> bool:
    """Does the change of a worker meet the point?  It ends there."""
    faults.arm([Fault(point, "fail")])
    try:
        copies.another_worker().apply(table, change, "L1")
    except FaultInjected:
        return True
    finally:
        faults.disarm()
    return False


@everywhere
@pytest.mark.parametrize("what", CHANGES)
def test_definitions_are_made_whole_whatever_ends_between_two_steps(copies: Copies, what: str) -> None:
    met, change = 0, CHANGES[what]
    for point in points(copies, what):
        table = copies.filled()
        if not ends(copies, table, change, point):
            continue
        met += 1
        worker = copies.another_worker()
        at = worker.position(table)
        assert (at is None) == (table.name not in copies.tables())
        if at is None:
            assert what == "drop"
        elif at.load == "L2":
            assert (what, copies.values(table, "id", "v", "w")) == ("create", [])
        elif at.schema_version == 2:
            assert (what, Counter(copies.values(table, "id", "v", "w"))) == ("evolve", with_null(ROWS))
        else:
            assert not copies.stepwise, point  # there, the look makes what is left
            assert Counter(copies.rows(table)) == ROWS
        worker.apply(table, change)
        assert (worker.position(table) is None) == (table.name not in copies.tables()) == (what == "drop")
        if what != "drop":
            assert Counter(copies.rows(table)) == (with_null(ROWS) if what == "evolve" else Counter())
        assert not [name for name in copies.tables() if name.startswith(LEFT)]
    assert met >= (3 if copies.stepwise else 1)


def with_null(rows: Counter[Row]) -> Counter[Row]:
    """In a column more."""
    return Counter((*row, None) for row in rows.elements())


@everywhere
def test_a_table_that_is_renamed_is_there_once_with_its_position(copies: Copies) -> None:
    met = 0
    for point in points(copies, "rename"):
        table, new = copies.filled(), TargetTable(copies.namespace, copies.called.format(f"new{next(NAMES)}"))
        if not ends(copies, table, Rename(new), point):
            continue
        met += 1
        worker = copies.another_worker()
        moved, at = worker.position(new), worker.position(table)
        assert (at is None) == (moved is not None)
        if copies.stepwise:
            assert (moved is not None) == (copies.renames or point == "apply.step.after")
        there = moved or at
        assert there is not None
        assert (there.applied, there.load) == (1, "L1")
        worker.apply(table, Rename(new))
        assert Counter(copies.rows(new)) == ROWS
        assert table.name not in copies.tables()
    assert met >= (3 if copies.stepwise else 1)


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("snowflake", "bigquery")]


@pytest.mark.parametrize("copies", ["enforced", "indexed", "redshift", "spanner", *LONG], indirect=True)
def test_of_two_workers_under_faults_every_change_is_done_once(copies: Copies) -> None:
    """Both apply the same batches as fast as they can, their connections are cut, and what fails is tried again."""
    for _ in range(5):
        if _two_workers_end_as_one(copies):
            return
        copies.start_again()
    pytest.fail("the server ended by itself, five times")


def _two_workers_end_as_one(copies: Copies) -> bool:
    """False if the server crashed meanwhile, which proves nothing."""
    random, rows, seq = Random(7), list[Row](), 0  # no Counter: the two zeros are one to it
    table, batches = copies.table(KEYLESS, load="L1"), list[Merge]()
    for _ in range(copies.batches):
        changes: list[Change] = []
        for _ in range(random.randint(1, 8)):
            if rows and random.random() < 0.4:
                changes.append(delete(seq, *rows.pop(random.randrange(len(rows)))))
            else:
                rows.append((random.choice(["a", "", None]), random.choice([*copies.zeros, 1.5, None])))
                changes.append(insert(seq, *rows[-1]))
            seq += 1
        batches.append(copies.change(KEYLESS, *changes))
    done = Counter[str]()

    def work(_: int) -> None:
        target = copies.another_worker()
        while True:
            try:
                at = target.position(table)
                assert at is not None
                todo = [one for one in batches if one.upto > at.applied]
                if not todo:
                    return
                done[target.apply(table, todo[0], "L1").how] += 1
            except TargetError as error:
                if not copies.alive:
                    return
                done[error.code] += 1

    with copies.troubled(), ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    if not copies.alive:
        return False
    assert Counter(map(repr, copies.rows(table))) == Counter(map(repr, rows))
    numbers = [row[-1] for row in copies.values(table, "_sequence_num")]
    assert len(set(numbers)) == len(numbers)
    assert done["target_conflict"] + done["target"] > 0, done
    return True


@pytest.mark.parametrize(
    ("copies", "mode"),
    [
        ("redshift", Mode.HISTORY), ("snowflake", Mode.MIRROR),
        *(("bigquery", mode) for mode in (Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY)),
    ],
    indirect=["copies"],
)  # fmt: skip
def test_a_batch_in_parts_is_one_transaction_in_which_later_parts_see_earlier_ones(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """Where a definition would commit what the transaction has done, there is none in it."""
    monkeypatch.setattr("replicator.targets.warehouse.changes.MEMORY", 1)
    table = copies.filled(mode)
    parts = [copies.segment(KEYED, [insert(seq, seq, "x"), update(seq + 1, (1, "a"), (1, f"v{seq}"))])
        for seq in (2, 4, 6)]  # fmt: skip
    change, before = Merge(parts, KEYED, 7), Counter(copies.values(table, "id", "v"))
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        copies.target.apply(table, change)
    faults.disarm()
    assert Counter(copies.values(table, "id", "v")) == before
    copies.target.apply(table, change)
    current = copies.quoted("_is_current") if mode is Mode.HISTORY else ""
    now = Counter(copies.values(table, "id", "v", where=current))
    assert now == Counter([(1, "v6"), (2, "x"), (4, "x"), (6, "x")])
    assert len(copies.values(table, "id")) == (8 if mode is Mode.HISTORY else 4)


@pytest.mark.parametrize("copies", ["snowflake", "bigquery"], indirect=True)
def test_interrupt_ends_what_is_done(copies: Any) -> None:
    """Again and again, as the scheduler does: a statement may be on its way to the server."""
    session, started = copies.session(), threading.Event()

    def long() -> None:
        started.set()
        session.query(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100000000)"
            " SELECT COUNT(*) FROM r"
        )

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(long)
        started.wait()
        for _ in range(60):
            session.interrupt()
            if wait([asked], timeout=0.5).done:
                break
        with pytest.raises(TargetError, match=r"cancelled the statement|was interrupted"):
            asked.result(timeout=0)
    session.close()
