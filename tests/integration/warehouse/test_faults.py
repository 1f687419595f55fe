"""Faults of a server of PostgreSQL's family: a change is done whole or not at all, and the error is one sentence."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

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
from replicator.targets.base import (
    ApplyResult,
    Create,
    Drop,
    Evolve,
    Merge,
    TargetTable,
)
from replicator.targets.postgres.config import destination
from replicator.targets.postgres.connection import PostgresSession
from tests.integration.warehouse.copies import KEYED, PostgresCopies, eventually
from tests.staged import insert, schema_of, update

pytestmark = pytest.mark.integration
WIDER = schema_of({"id": "int", "v": "string", "w": "int"}, ["id"])
KEYLESS = schema_of({"v": "string"})
WAITING = (
    "SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = 'tidemark' AND a.wait_event_type = 'Lock'"
    " AND EXISTS (SELECT 1 FROM pg_locks l WHERE l.pid = a.pid AND l.relation = %s::regclass)"
)
everywhere = pytest.mark.parametrize("copies", ["enforced", "indexed", "redshift"], indirect=True)


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


@everywhere
@pytest.mark.parametrize("what", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_change_that_the_server_ends_is_undone_and_done_again(copies: PostgresCopies, what: str) -> None:
    table = copies.filled()
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


@everywhere
def test_staging_tables_end_with_their_connection(copies: PostgresCopies) -> None:
    left = "SELECT relname FROM pg_class WHERE relname LIKE '\\_tidemark\\_stage%%'"
    table = copies.filled()
    assert copies.query(left.replace("%%", "%")) == []
    with beginning(copies, table) as merge:
        pid = waiting(copies, table)
        assert copies.query(left.replace("%%", "%"))
        copies.query("SELECT pg_terminate_backend(%s)", pid)
        with pytest.raises(TargetError):
            merge.result()
    eventually(lambda: not copies.query(left.replace("%%", "%")))


@everywhere
def test_interrupt_ends_a_change_that_waits(copies: PostgresCopies) -> None:
    table = copies.filled()
    with beginning(copies, table) as merge:
        waiting(copies, table)
        copies.target.interrupt()
        with pytest.raises(TargetError):
            merge.result(timeout=20)
    assert Counter(copies.rows(table)) == Counter([(1, "a"), (2, "b")])
    copies.merge(table, KEYED, insert(2, 3, "c"))  # the target itself goes on
    assert len(copies.rows(table)) == 3


def test_a_lock_on_one_table_stops_no_other(one: PostgresCopies) -> None:
    held, free = one.filled(), one.filled()
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
    table, worker = one.filled(), one.another_worker()
    with locked(one, table, "ACCESS SHARE"):
        with pytest.raises(TargetError, match="waited in vain for a lock") as told:
            worker.apply(table, Drop(), "L1")
        assert told.value.retryable
        assert "pg_stat_activity" in told.value.remedy
    assert worker.apply(table, Drop(), "L1").how == "drop"


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
    table = one.filled()
    one.settings |= {"port": 1}
    with pytest.raises(TargetError, match=r"refused|failed"):
        one.another_worker().position(table)
    one.settings |= {"port": one.server.port, "password": "a-wrong-secret"}
    with pytest.raises(TargetUnauthorized) as told:
        one.another_worker().position(table)
    assert "a-wrong-secret" not in str(told.value)
