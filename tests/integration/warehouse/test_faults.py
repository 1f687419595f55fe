"""What a server and other workers do to a change: it is done whole, or not at all, and is told in a sentence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from replicator import faults
from replicator.errors import (
    StorageFull,
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)
from replicator.faults import Fault, FaultInjected
from replicator.targets.base import (
    Append,
    ApplyResult,
    Create,
    Drop,
    Evolve,
    Merge,
    Rename,
    Replace,
    TargetChange,
    TargetTable,
)
from replicator.targets.postgres.config import destination
from replicator.targets.postgres.connection import PostgresSession
from tests.integration.warehouse.copies import NAMES, PostgresCopies, eventually
from tests.staged import Change, delete, insert, read, schema_of, update
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "int", "v": "string", "w": "int"}, ["id"])
KEYLESS = schema_of({"v": "string"})
WAITING = (
    "SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = 'tidemark' AND a.wait_event_type = 'Lock'"
    " AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.relation = %s::regclass)"
)


@pytest.fixture(params=["enforced", "indexed", "redshift"])
def copies(request: pytest.FixtureRequest, postgres_source: EmbeddedPostgresSource, tmp_path: Path) -> Iterator[Any]:
    """Tables in a schema of their own, in every SQL target."""
    if request.param == "redshift":
        yield request.getfixturevalue("shift")
        return
    made = PostgresCopies(postgres_source, tmp_path, request.param, f"faults_{next(NAMES)}")
    yield made
    faults.disarm()
    made.close()


@contextmanager
def locked(copies: PostgresCopies, table: TargetTable, mode: str) -> Iterator[None]:
    """Another session holds the table."""
    with copies.session() as cursor:
        cursor.execute(f"BEGIN; LOCK TABLE {copies.place(table)} IN {mode} MODE")
        yield
        cursor.execute("ROLLBACK")


def waiting(copies: PostgresCopies, table: TargetTable) -> int:
    """The server's process of a change that waits for a lock of the table."""
    return int(eventually(lambda: copies.query(WAITING, copies.place(table)))[0][0])


@contextmanager
def beginning(copies: PostgresCopies, table: TargetTable) -> Iterator[Future[ApplyResult]]:
    """A merge that waits in the midst of its transaction: the position is moved, the rows are not."""
    staged = copies.segment(KEYED, [update(2, (1, "a"), (1, "A")), insert(3, 3, "c")])
    with ThreadPoolExecutor(1) as pool, locked(copies, table, "SHARE"):
        yield pool.submit(copies.target.apply, table, Merge([staged], KEYED, 3), "L1")


def filled(copies: PostgresCopies) -> TargetTable:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    return table


@pytest.mark.parametrize("what", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_change_that_the_server_ends_is_undone_and_done_again(copies: PostgresCopies, what: str) -> None:
    table = filled(copies)
    with beginning(copies, table) as merge:
        copies.query(f"SELECT {what}(%s)", waiting(copies, table))
        with pytest.raises(TargetError):
            merge.result()
    assert Counter(copies.rows(table)) == Counter([(1, "a"), (2, "b")])
    at = copies.target.position(table)
    assert at is not None
    assert at.applied == 1
    copies.merge(table, KEYED, update(2, (1, "a"), (1, "A")), insert(3, 3, "c"))
    assert Counter(copies.rows(table)) == Counter([(1, "A"), (2, "b"), (3, "c")])


def test_staging_tables_end_with_their_connection(copies: PostgresCopies) -> None:
    left = "SELECT relname FROM pg_class WHERE relname LIKE '\\_tidemark\\_stage%%'"
    table = filled(copies)
    assert copies.query(left.replace("%%", "%")) == []
    with beginning(copies, table) as merge:
        pid = waiting(copies, table)
        assert copies.query(left.replace("%%", "%"))
        copies.query("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(TargetError):
            merge.result()
    eventually(lambda: not copies.query(left.replace("%%", "%")))


def test_interrupt_ends_a_change_that_waits(copies: PostgresCopies) -> None:
    table = filled(copies)
    with beginning(copies, table) as merge:
        waiting(copies, table)
        copies.target.interrupt()
        with pytest.raises(TargetError):
            merge.result(timeout=20)
    assert Counter(copies.rows(table)) == Counter([(1, "a"), (2, "b")])
    copies.merge(table, KEYED, insert(2, 3, "c"))  # the target itself goes on
    assert len(copies.rows(table)) == 3


def test_a_lock_on_one_table_stops_no_other(one: PostgresCopies) -> None:
    held, free = filled(one), filled(one)
    with ThreadPoolExecutor(1) as pool:
        with locked(one, held, "ACCESS SHARE"):
            evolving = pool.submit(one.target.apply, held, Evolve(WIDER, 2), "L1")
            waiting(one, held)
            for seq in range(5):
                one.merge(free, KEYED, insert(10 + seq, 10 + seq, "x"))
            assert len(one.rows(free)) == 7
            assert not evolving.done()
        assert evolving.result(timeout=30).how == "evolve"


def test_what_waits_too_long_for_a_lock_is_told_and_tried_again(
    one: PostgresCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "replicator.targets.postgres.connection.SESSION", "SET lock_timeout = '50ms'; SET synchronous_commit = on"
    )
    table, worker = filled(one), one.another_worker()
    with locked(one, table, "ACCESS SHARE"):
        with pytest.raises(TargetError, match="waited in vain for a lock") as told:
            worker.apply(table, Drop(), "L1")
        assert told.value.retryable
        assert "pg_stat_activity" in told.value.remedy
    assert worker.apply(table, Drop(), "L1").how == "drop"


def test_of_two_workers_at_a_time_every_change_is_done_once(copies: PostgresCopies) -> None:
    """Both apply the same batches as fast as they can, their connections are cut, and what fails is tried again."""
    random, rows, seq = Random(5), Counter[tuple[str]](), 0
    table = copies.table(KEYLESS)
    batches = []
    for _ in range(copies.batches):
        changes: list[Change] = []
        for _ in range(random.randint(1, 6)):
            there = sorted(rows.elements())
            if there and random.random() < 0.4:
                gone = random.choice(there)
                rows -= Counter([gone])
                changes.append(delete(seq, *gone))
            else:
                new = (random.choice("abc"),)
                rows[new] += 1
                changes.append(insert(seq, *new))
            seq += 1
        batches.append(Merge([copies.segment(KEYLESS, changes)], KEYLESS, seq - 1))
    done, over = Counter[str](), threading.Event()

    def work(number: int) -> None:
        target = copies.another_worker()
        while True:
            try:
                at = target.position(table)
                assert at is not None
                todo = [one for one in batches if one.upto > at.applied]
                if not todo:
                    return
                how = target.apply(table, todo[0], "L1").how
                done[how if how == "skip" else "done"] += 1
            except TargetError as error:
                done[error.code] += 1
        raise AssertionError(number)

    def cut() -> None:
        while not over.wait(copies.cut_seconds):
            copies.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark'"
                " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
            )

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
    finally:
        over.set()
        cutter.join()
    assert Counter(copies.rows(table)) == +rows
    numbers = [row[-1] for row in copies.rows(table, sequence=True)]
    assert len(set(numbers)) == len(numbers)
    assert done["target_conflict"] + done["target"] > 0


def test_of_two_that_make_one_table_at_a_time_one_is_refused(one: PostgresCopies) -> None:
    """Their namespace, too, is made once."""
    barrier = threading.Barrier(4)

    def make(number: int) -> str:
        target = one.another_worker()
        barrier.wait()
        try:
            return target.apply(TargetTable(one.namespace, "same"), Create(KEYED, 1, -1, f"L{number}"), "(none)").how
        except TargetConflict:
            return "refused"

    with ThreadPoolExecutor(4) as pool:
        found = Counter(pool.map(make, range(4)))
    assert found == {"create": 1, "refused": 3}


POINTS = ("apply.read.after", "apply.stage.before", "apply.publish.before", "apply.publish.after")


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("action", ["fail", "full"])
def test_between_any_two_steps_all_or_nothing_is_there(copies: PostgresCopies, point: str, action: str) -> None:
    """Every change of rows; a commit that is done and reported failed is not done again."""
    keyed, keyless = filled(copies), copies.table(KEYLESS, load="")
    copies.target.apply(keyless, Replace([copies.segment(KEYLESS, [read(0, "x")])], KEYLESS, 1, 0, 0, "L1"))
    log = copies.segment(KEYED, [update(2, (1, "a"), (1, "A")), insert(3, 3, "c")])
    again = copies.segment(KEYLESS, [read(5, "y"), read(6, "y")])
    chunk = copies.segment(KEYED, [read(4, 4, "d")])
    for table, change, after in (
        (keyed, Merge([log], KEYED, 3), Counter([(1, "A"), (2, "b"), (3, "c")])),
        (keyed, Append([chunk], KEYED, 4), Counter([(1, "A"), (2, "b"), (3, "c"), (4, "d")])),
        (keyless, Replace([again], KEYLESS, 1, 6, 6, "L2"), Counter([("y",), ("y",)])),
    ):
        before = Counter(copies.rows(table))
        faults.arm([Fault(point, action)])  # type: ignore[arg-type]
        with pytest.raises((FaultInjected, OSError)):
            copies.target.apply(table, change)  # type: ignore[arg-type]
        faults.disarm()
        assert Counter(copies.rows(table)) == (after if point == "apply.publish.after" else before)
        copies.target.apply(table, change)  # type: ignore[arg-type]
        assert Counter(copies.rows(table)) == after


@pytest.mark.parametrize("point", ["create.between", "create.after", "drop.after", "rename.after", "evolve.after"])
def test_definitions_change_with_their_position_or_not_at_all(one: PostgresCopies, point: str) -> None:
    table = filled(one)
    new = TargetTable(table.namespace, f"{table.name}_new")
    changes: dict[str, TargetChange] = {
        "create": Create(WIDER, 2, 9, "L2"), "drop": Drop(), "evolve": Evolve(WIDER, 2), "rename": Rename(new),
    }  # fmt: skip
    change = changes[point.split(".", maxsplit=1)[0]]
    faults.arm([Fault(f"apply.{point}", "fail")])
    with pytest.raises(FaultInjected):
        one.target.apply(table, change, "L1")
    faults.disarm()
    if point == "create.between":
        assert Counter(one.rows(table)) == Counter([(1, "a"), (2, "b")])
    at, moved = one.target.position(table), one.target.position(new)
    there = one.query("SELECT to_regclass(%s)::text, to_regclass(%s)::text", one.place(table), one.place(new))[0]
    assert [at is None, moved is None] == [name is None for name in there]
    assert at is None or moved is None
    if isinstance(change, Rename):
        moved = at or moved
        assert moved is not None
        assert moved.load == "L1"
        return
    assert at is None or ("w" in one.columns(table)) == (at.schema_version == 2)


@pytest.mark.parametrize(
    ("state", "kind", "told"),
    [
        ("40001", TargetConflict, "overtaken"),
        ("40P01", TargetConflict, "deadlock"),
        ("23505", TargetConflict, "another worker"),
        ("42P07", TargetConflict, "another worker"),
        ("53100", StorageFull, "no space left"),
        ("53300", TargetError, "no connection free"),
        ("25006", TargetError, "read-only"),
        ("42501", TargetUnauthorized, "does not allow"),
        ("57014", TargetError, "cancelled"),
        ("2BP01", TargetError, "depend"),
        ("42939", UnsupportedDdl, "pg_"),
        ("22003", ValueDoesNotFit, "value"),
        ("54011", UnsupportedDdl, "limit"),
        ("58030", TargetError, "failed"),
    ],
)
def test_each_answer_is_a_sentence_with_a_remedy(
    one: PostgresCopies, state: str, kind: type[TidemarkError], told: str
) -> None:
    session = PostgresSession(destination(one.settings).server)
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'what it says' USING ERRCODE = '{state}', DETAIL = 'values of it'; END $$"
    try:
        with pytest.raises(TidemarkError) as found:
            session.execute(raised)
    finally:
        session.close()
    assert type(found.value) is kind
    assert told in found.value.message
    assert "what it says" in found.value.message
    assert "values of it" not in found.value.message
    assert found.value.remedy
    assert found.value.retryable == (not issubclass(kind, TableError))


def test_a_server_that_is_away_is_told(one: PostgresCopies) -> None:
    table = filled(one)
    one.settings |= {"port": 1}
    with pytest.raises(TargetError, match=r"refused|failed"):
        one.another_worker().position(table)
    one.settings |= {"port": one.server.port, "password": "a-wrong-secret"}
    with pytest.raises(TargetUnauthorized) as told:
        one.another_worker().position(table)
    assert "a-wrong-secret" not in str(told.value)
