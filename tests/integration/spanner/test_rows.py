"""Rows in Spanner: with their position, within the limits of a commit, despite lost answers, aborts and repeats."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.api_core import exceptions
from google.cloud.spanner_v1 import CommitRequest

from replicator import faults
from replicator.errors import (
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
    ValuesLost,
)
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.model.schema import COMMIT_TS, TXN_ID
from replicator.targets.base import Append, DeleteBelow, Merge
from replicator.targets.spanner import connection, values
from replicator.targets.spanner.config import destination
from replicator.targets.spanner.connection import SpannerSession
from replicator.targets.spanner.failures import NoSuchTable, TooManyMutations, explained
from replicator.targets.spanner.names import MAX_MUTATIONS
from replicator.targets.spanner.positions import SpannerPositions
from replicator.targets.spanner.rows import _first
from tests.integration.warehouse.clouds import SpannerCopies
from tests.integration.warehouse.copies import KEYED
from tests.staged import TS, delete, insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYLESS = schema_of({"v": "string", "f": "double"})


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many mutations each commit has sent, as Spanner counts them."""
    sent: list[int] = []
    commit = SpannerSession._commit

    def counted(self: SpannerSession, request: CommitRequest) -> None:
        count = 0
        for one in CommitRequest.pb(request).mutations:
            write = one.insert_or_update if one.HasField("insert_or_update") else one.update
            count += len(one.delete.key_set.keys) + len(write.columns) * len(write.values)
        sent.append(count)
        commit(self, request)

    monkeypatch.setattr(SpannerSession, "_commit", counted)
    return sent


@pytest.mark.parametrize("mode", list(Mode))
def test_no_commit_is_beyond_half_of_spanners_limit(copies: SpannerCopies, commits: list[int], mode: Mode) -> None:
    schema = schema_of({"id": "int", **{f"c{n}": "int" for n in range(18)}}, ["id"])
    table, rows = copies.table(schema, mode=mode), 5000
    chunk = copies.segment(schema, [read(n, n, *range(18)) for n in range(rows)])
    copies.target.apply(table, Append([chunk], schema, rows - 1))
    log = copies.segment(schema, [
        update(rows + n, (n, *range(18)), (n + rows if n % 3 == 0 else n, *range(1, 19))) for n in range(rows)
    ])  # fmt: skip
    how = copies.target.apply(table, Merge([log], schema, 2 * rows - 1)).how
    assert how.endswith(" commits)") or mode is Mode.CHANGELOG
    copies.target.apply(table, DeleteBelow(2 * rows - 5, 2 * rows))
    assert max(commits) <= MAX_MUTATIONS + 10  # the position
    assert len([one for one in commits if one > MAX_MUTATIONS // 4]) > 4
    if mode is not Mode.CHANGELOG:
        live = {Mode.MIRROR: "TRUE", Mode.SOFT_DELETE: "NOT tidemark_is_deleted", Mode.HISTORY: "tidemark_is_current"}
        found = copies.query(f"SELECT COUNT(*), SUM(c0) FROM {copies.place(table)} WHERE {live[mode]}")
        assert found == [(5, 5)]


def test_a_commit_ends_where_a_transaction_of_the_source_ends() -> None:
    def cut(transactions: list[str | None], most: int) -> int:
        table = pa.table({
            TXN_ID: pa.array(transactions, pa.string()),
            COMMIT_TS: pa.array([0] * len(transactions), pa.timestamp("us")),
            "_operation": ["READ" if one is None else "INSERT" for one in transactions],
        })  # fmt: skip
        return _first(table, most, 1 << 20)

    assert cut(["a", "a", "b", "b", "b", "c"], 6) == 6
    assert cut(["a", "a", "b", "b", "b", "c"], 5) == 5
    assert cut(["a", "a", "b", "b", "b", "c"], 4) == 2
    assert cut(["a", "a", "a", "b"], 2) == 2  # a single transaction beyond the limit
    assert cut([None, None, None], 2) == 2


def test_what_is_folded_at_a_time_ends_where_a_transaction_does(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replicator.targets.warehouse.changes.MEMORY", 1)
    table, ends = copies.table(KEYED), set[int]()
    changes = [replace(insert(n, n, "x"), at=TS + timedelta(seconds=n // 10)) for n in range(95)]
    log = [copies.segment(KEYED, changes[start : start + 19]) for start in range(0, 95, 19)]
    commit = SpannerPositions.commit

    def seen(self: SpannerPositions, session: Any, moves: Any, *more: Any) -> None:
        ends.update(int(move.after["applied"]) for move in moves if "applied" in move.after)
        commit(self, session, moves, *more)

    monkeypatch.setattr(SpannerPositions, "commit", seen)
    copies.target.apply(table, Merge(log, KEYED, 94))
    assert len(ends) > 2
    assert {n % 10 for n in ends - {94}} == {9}
    assert len(copies.rows(table)) == 95


def test_a_worker_that_dies_between_two_commits_of_a_batch_is_followed_by_one_that_goes_on(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_mutations", 20)
    for keyed in (True, False):
        schema = KEYED if keyed else schema_of({"id": "int", "v": "string"})
        table, worker = copies.table(schema), copies.another_worker()
        log = copies.segment(schema, [insert(n, n % 40, f"v{n}") if n < 40 else
            update(n, (n % 40, f"v{n - 40}"), (n % 40, f"v{n}")) for n in range(80)])  # fmt: skip
        for hit in (3, 2, 1):
            faults.arm([Fault("apply.publish.after", "fail", hit)])
            with pytest.raises(FaultInjected):
                copies.another_worker().apply(table, Merge([log], schema, 79), "L1")
            faults.disarm()
        at = worker.position(table)
        assert at is not None
        assert 0 < at.applied < 79
        assert at.item == log.path
        worker.apply(table, Merge([log], schema, 79), "L1")
        assert Counter(copies.rows(table)) == Counter((n, f"v{n + 40}") for n in range(40))


def test_what_was_changed_while_a_table_was_loaded_is_one_commit_where_it_fits(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows were read at different times: the states in between are none that the source had."""
    monkeypatch.setattr(copies, "_mutations", 30)
    worker = copies.another_worker()
    for whole_to, told in ((99, "merge"), (-1, "merge (15 commits)"), (49, "merge (9 commits)")):
        table = copies.table(KEYED)
        worker.apply(table, Append([copies.segment(KEYED, [read(n, n, "x") for n in range(5)])], KEYED, 4))
        log = copies.segment(KEYED, [update(n, (n % 5, "x"), (n % 5, f"v{n}")) for n in range(5, 105)])
        assert worker.apply(table, Merge([log], KEYED, 104, whole_to=whole_to + 5)).how == told
        assert Counter(copies.rows(table)) == Counter((n % 5, f"v{n}") for n in range(100, 105))


def test_spanner_refusing_a_commit_makes_the_next_ones_smaller(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator takes any size: its answer is given in its place, as Spanner words it."""
    table, commit, limit = copies.table(KEYED), SpannerSession._commit, 20_000

    def refusing(self: SpannerSession, request: CommitRequest) -> None:
        count = sum(3 * len(one.insert_or_update.values) for one in CommitRequest.pb(request).mutations)
        if count > limit:
            raise exceptions.InvalidArgument("The transaction contains too many mutations. Insert and update …")
        commit(self, request)

    monkeypatch.setattr(SpannerSession, "_commit", refusing)
    change = Merge([copies.segment(KEYED, [insert(n, n, "x") for n in range(9000)])], KEYED, 8999)
    with pytest.raises(TooManyMutations) as told:
        copies.target.apply(table, change)
    assert told.value.retryable
    copies.target.apply(table, change)
    assert copies.query(f"SELECT COUNT(*) FROM {copies.place(table)}") == [(9000,)]


def test_changes_that_cannot_be_parted_stop_the_table_where_they_do_not_fit(copies: SpannerCopies) -> None:
    from tests.integration.spark.unchanged_histories import SCHEMA, Source, staged

    small = SpannerCopies(copies.spanner, copies_folder(copies), copies.namespace, 20)
    source = Source(Random(3))
    for _ in range(300):
        source.step()
    source.take()
    for _ in range(100):
        source.step()
    one = staged(small, source.take())  # type: ignore[arg-type]
    table = small.table(SCHEMA)
    with pytest.raises((ValuesLost, TableError)):
        small.target.apply(table, Merge([one], SCHEMA, one.last_sequence))
    small.close()


def copies_folder(copies: SpannerCopies) -> Any:
    from pathlib import Path

    return Path(copies.storage.url.removeprefix("file://")).parent


def test_an_answer_that_is_lost_is_asked_for_again(copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit is done, its answer is not heard: the same transaction is committed once."""
    table, commit, lost = copies.table(KEYED), SpannerSession._commit, iter([True, False])

    def once(self: SpannerSession, request: CommitRequest) -> None:
        commit(self, request)
        if next(lost, False):
            raise exceptions.ServiceUnavailable("Socket closed")

    monkeypatch.setattr(SpannerSession, "_commit", once)
    copies.merge(table, KEYED, insert(0, 1, "a"))
    assert copies.rows(table) == [(1, "a")]
    assert next(lost, None) is None


def test_a_transaction_of_somebody_else_is_waited_out(copies: SpannerCopies) -> None:
    table, over, aborted = copies.table(KEYED), threading.Event(), []

    def others() -> None:
        with copies.spanner.database_session() as session:
            while not over.is_set():
                transaction = session.transaction()
                transaction.begin()
                try:
                    list(transaction.execute_sql("SELECT 1"))
                    time.sleep(0.02)
                    transaction.rollback()
                except exceptions.Aborted:
                    aborted.append(1)
                over.wait(0.03)

    stranger = threading.Thread(target=others)
    stranger.start()
    try:
        for n in range(20):
            copies.merge(table, KEYED, insert(n, n, "x"))
    finally:
        over.set()
        stranger.join()
    assert len(copies.rows(table)) == 20


def test_interrupt_ends_what_is_done(copies: SpannerCopies) -> None:
    session, started = SpannerSession(destination(copies.settings)), threading.Event()

    def long() -> None:
        def work(_: connection.Read) -> list[Any]:
            started.set()
            raise exceptions.Aborted("again and again")

        session.transact(work)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(long)
        assert started.wait(10)
        session.interrupt()
        with pytest.raises(TargetError, match="was interrupted"):
            asked.result(timeout=10)
    with pytest.raises(TargetError, match="was interrupted"):
        session.query("SELECT 1")
    session.close()


def test_a_transaction_that_is_aborted_for_ever_is_given_up(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ABORTED_SECONDS", 0.2)
    session, attempts = SpannerSession(destination(copies.settings)), itertools.count()

    def work(_: connection.Read) -> list[Any]:
        next(attempts)
        raise exceptions.Aborted("again and again")

    with pytest.raises(TargetConflict, match="in favour of others"):
        session.transact(work)
    assert next(attempts) > 3
    session.close()


def test_a_key_or_a_cell_that_is_too_long_stops_the_table(copies: SpannerCopies) -> None:
    table, texts = copies.table(KEYED), schema_of({"t": "string", "n": "int"}, ["t"])
    keyed = copies.table(texts)
    with pytest.raises(ValueDoesNotFit, match=r"column v of copies.* a text of 2621441 characters") as told:
        copies.merge(table, KEYED, insert(0, 1, "x" * (values.MAX_TEXT + 1)))
    assert told.value.column == "v"
    with pytest.raises(ValueDoesNotFit, match=r"long|size|limit"):
        copies.merge(keyed, texts, insert(0, "k" * 9000, 1))
    copies.merge(table, KEYED, insert(0, 1, "ä" * values.MAX_TEXT))
    assert copies.query(f"SELECT LENGTH(v) FROM {copies.place(table)}") == [(values.MAX_TEXT,)]


def test_a_cell_that_comes_in_parts_is_read_whole(copies: SpannerCopies) -> None:
    """Spanner cuts an answer beyond a mebibyte, also within a text."""
    text = "".join(chr(0x4E00 + n % 5000) for n in range(1_500_000))
    table = copies.table(KEYED, mode=Mode.SOFT_DELETE)
    copies.merge(table, KEYED, insert(0, 1, text), insert(1, 2, "b"))
    copies.merge(table, KEYED, delete(2, 1, text))
    found = {row[0]: row for row in copies.rows(table)}
    assert found[1][1] == text
    assert found[2][1] == "b"


ANSWERS: list[tuple[exceptions.GoogleAPICallError, type[TidemarkError], str]] = [
    (exceptions.Unauthenticated("no"), TargetUnauthorized, "refused the login"),
    (exceptions.PermissionDenied("missing permission"), TargetUnauthorized, "does not allow"),
    (exceptions.Aborted("conflict"), TargetConflict, "in favour of another"),
    (exceptions.ResourceExhausted("quota"), TargetError, "quota"),
    (exceptions.DeadlineExceeded("late"), TargetError, "in time"),
    (exceptions.ServiceUnavailable("socket"), TargetError, "cannot be reached"),
    (exceptions.NotFound("Session not found: x"), TargetError, "ended the session"),
    (exceptions.NotFound("Table not found: x"), NoSuchTable, "no such table"),
    (exceptions.NotFound("Database not found: x"), TargetError, "does not exist"),
    (exceptions.InvalidArgument("The transaction contains too many mutations."), TooManyMutations, "so much"),
    (exceptions.InvalidArgument("Table t has too many columns; the limit is 1024."), UnsupportedDdl, "limit"),
    (exceptions.FailedPrecondition("New value exceeds the maximum size limit for this column: t.v, size: 9"),
        ValueDoesNotFit, "so long"),
    (exceptions.FailedPrecondition("Cannot drop column `v`, which is referenced by index `i`"), TargetError, "depend"),
    (exceptions.AlreadyExists("Row [v4lue] in table t already exists"), TargetConflict, "already"),
    (exceptions.InternalServerError("?"), TargetError, "failed"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_each_answer_is_a_sentence_with_a_remedy(copies: SpannerCopies, number: int) -> None:
    error, kind, told = ANSWERS[number]
    with pytest.raises(TidemarkError) as found, explained(destination(copies.settings)):
        raise error
    assert type(found.value) is kind, found.value.message
    assert told in found.value.message
    assert "v4lue" not in found.value.message
    assert found.value.remedy
    assert found.value.retryable == (not issubclass(kind, TableError))
