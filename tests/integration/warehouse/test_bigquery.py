"""BigQuery by its stand-in: what ends, what is lost, what is left behind, and what a destination's page shows."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from google.cloud.bigquery.retry import DEFAULT_RETRY

from replicator import faults
from replicator.errors import TableError, TargetConflict, TargetError, UnsupportedDdl
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.sources.base import CheckStatus
from replicator.staging.storage import Storage
from replicator.targets.base import Append, Create, Drop, Evolve, Merge, Rename, Target, TargetChange, TargetTable
from replicator.targets.bigquery.config import destination
from replicator.targets.bigquery.connection import BigQuerySession
from replicator.targets.bigquery.dialect import COPIED_FROM, BigQueryDialect, _digest
from replicator.targets.bigquery.kind import BIGQUERY
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.kind import Opening
from testing.servers.bigquery.embedded import EmbeddedBigQuery
from tests.staged import Change, Row, delete, insert, read, schema_of, segment, update

pytestmark = pytest.mark.integration
NAMES = itertools.count(1)
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "bigint", "v": "string", "w": "float"}, ["id"])
KEYLESS = schema_of({"v": "string", "f": "double"})


class Copies:
    """A dataset of the stand-in, and targets over it."""

    def __init__(self, server: EmbeddedBigQuery, folder: Path) -> None:
        self.server, self.namespace = server, f"copies_{next(NAMES)}"
        self.storage, self.settings = Storage(f"file://{folder}/staging"), dict(server.settings)
        self.dialect = BigQueryDialect(destination(self.settings))
        self._opened: list[Target] = []
        self.target = self.another_worker()

    def another_worker(self) -> Target:
        lake: Any = None
        made = BIGQUERY.open(Opening(lake, lake, self.storage, "r1", self.settings, "mysql"))
        self._opened.append(made)
        return made

    def session(self) -> BigQuerySession:
        return BigQuerySession(destination(self.settings))

    def close(self) -> None:
        self.trouble("none")
        for one in self._opened:
            one.close()

    def query(self, sql: str) -> list[Any]:
        with closing(self.server.client()) as client:
            return [row.values() for row in client.query(sql).result()]

    def filled(self, mode: Mode = Mode.MIRROR) -> TargetTable:
        table = TargetTable(self.namespace, f"T_{next(NAMES)}")
        self.target.apply(table, Create(KEYED, 1, -1, "L1", mode))
        self.target.apply(table, self.merge(insert(0, 1, "a"), insert(1, 2, "b")))
        return table

    def merge(self, *changes: Change) -> Merge:
        staged = segment(self.storage, KEYED, changes)
        return Merge([staged], KEYED, staged.last_sequence)

    def rows(self, table: TargetTable, *names: str) -> Counter[Row]:
        listed = ", ".join(f"`{name}`" for name in names or ("id", "v"))
        return Counter(self.query(f"SELECT {listed} FROM {self.dialect.place(table)}"))

    def tables(self) -> set[str]:
        with closing(self.server.client()) as client:
            return {one.table_id for one in client.list_tables(self.namespace)}

    def trouble(self, what: str, **said: Any) -> None:
        query = "&".join(f"{name}={value}" for name, value in said.items())
        urlopen(Request(f"{self.server.endpoint}/trouble/{what}?{query}", method="POST"), timeout=20).close()


@pytest.fixture
def copies(bigquery_server: EmbeddedBigQuery, tmp_path: Path) -> Iterator[Copies]:
    made = Copies(bigquery_server, tmp_path)
    yield made
    faults.disarm()
    made.close()


@pytest.mark.parametrize("point", ["apply.step.before", "apply.step.between", "apply.step.after"])
def test_definitions_are_made_whole_whatever_ends_between_two_steps(copies: Copies, point: str) -> None:
    new = TargetTable(copies.namespace, f"new_{next(NAMES)}")
    changes: list[TargetChange] = [Create(WIDER, 2, 9, "L2"), Evolve(WIDER, 2), Rename(new), Drop()]
    for change in changes:
        table = copies.filled()
        faults.arm([Fault(point, "fail")])
        with pytest.raises(FaultInjected):
            copies.another_worker().apply(table, change, "L1")
        faults.disarm()
        worker = copies.another_worker()
        at, moved = worker.position(table), worker.position(new)
        if isinstance(change, Rename):
            assert (at is None) == (moved is not None) == (point == "apply.step.after")
            worker.apply(table, change)
            assert copies.rows(new) == Counter([(1, "a"), (2, "b")])
        elif isinstance(change, Drop):
            assert at is None
            assert table.name not in copies.tables()
        else:
            assert at is not None
            assert at.load == ("L2" if isinstance(change, Create) else "L1")
            kept = Counter() if isinstance(change, Create) else Counter([(1, "a", None), (2, "b", None)])
            assert copies.rows(table, "id", "v", "w") == kept
    assert not [name for name in copies.tables() if name.startswith("_tidemark_stage")]


@pytest.mark.parametrize(
    "point", ["apply.read.after", "apply.stage.before", "apply.publish.before", "apply.publish.after"]
)
def test_rows_change_with_their_position_or_not_at_all(copies: Copies, point: str) -> None:
    table = copies.filled()
    chunk = segment(copies.storage, KEYED, [read(4, 4, "d")])
    log = copies.merge(update(2, (1, "a"), (1, "A")), insert(3, 3, "c"))
    for change, after in (
        (log, Counter([(1, "A"), (2, "b"), (3, "c")])),
        (Append([chunk], KEYED, 4), Counter([(1, "A"), (2, "b"), (3, "c"), (4, "d")])),
    ):
        before = copies.rows(table)
        faults.arm([Fault(point, "fail")])
        with pytest.raises(FaultInjected):
            copies.target.apply(table, change)
        faults.disarm()
        assert copies.rows(table) == (after if point == "apply.publish.after" else before)
        copies.target.apply(table, change)
        assert copies.rows(table) == after


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("lost", {"times": 4}),
        ("refused", {"times": 2}),
        ("unavailable", {"times": 2}),
        ("limited", {"times": 2}),
        ("fail", {"times": 2}),
        ("fail", {"times": 2, "reason": "jobRateLimitExceeded"}),
        ("expire", {}),
        ("fail_late", {"of": "load"}),
        ("fail_late", {"of": "query"}),
    ],
)
def test_what_passes_is_tried_again_and_done_once(copies: Copies, what: str, said: dict[str, Any]) -> None:
    table = copies.filled()
    copies.trouble(what, **said)
    done = copies.target.apply(table, copies.merge(update(2, (1, "a"), (1, "A")), insert(3, 3, "c"), delete(4, 2, "b")))
    assert (done.how, done.inserted, done.updated, done.deleted) == ("merge", 1, 1, 1)
    assert copies.rows(table) == Counter([(1, "A"), (3, "c")])


def test_a_transaction_that_is_done_and_said_to_have_failed_is_not_done_again(copies: Copies) -> None:
    table, change = copies.filled(), copies.merge(update(2, (1, "a"), (1, "A")), insert(3, 3, "c"))
    copies.trouble("fail_late", of="script")
    with pytest.raises(TargetConflict, match="Another worker committed"):
        copies.target.apply(table, change)
    assert copies.target.apply(table, change).how == "skip"
    assert copies.rows(table) == Counter([(1, "A"), (2, "b"), (3, "c")])


@pytest.mark.parametrize(
    ("what", "said", "kind", "told", "remedy"),
    [
        ("conflict", {}, TargetConflict, "overtaken", "automatically"),
        ("fail", {"reason": "quotaExceeded"}, TargetError, "used up a quota", "seconds between commits"),
        ("fail", {"reason": "stopped"}, TargetError, "cancelled", "automatically"),
    ],
)
def test_what_fails_leaves_rows_and_position_as_they_were(
    copies: Copies, what: str, said: dict[str, Any], kind: type[TargetError], told: str, remedy: str
) -> None:
    table = copies.filled()
    change = copies.merge(update(2, (1, "a"), (1, "A")))
    copies.trouble(what, **said)
    with pytest.raises(TargetError, match=told) as found:
        copies.target.apply(table, change)
    assert type(found.value) is kind
    assert remedy in found.value.remedy
    at = copies.target.position(table)
    assert at is not None
    assert at.applied == 1
    assert copies.rows(table) == Counter([(1, "a"), (2, "b")])
    copies.target.apply(table, change)
    assert copies.rows(table) == Counter([(1, "A"), (2, "b")])


def test_a_worker_that_was_overtaken_is_refused_by_the_script(copies: Copies) -> None:
    table, slow = copies.filled(), copies.another_worker()
    change = copies.merge(insert(2, 3, "c"))
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        slow.apply(table, change)
    faults.disarm()
    session = copies.session()
    position = copies.dialect.place(copies.dialect.positions(table))
    with pytest.raises(TargetConflict, match="mine 0"), session.transaction():  # noqa: PT012 - it ends the block
        found = session.execute(f"UPDATE {position} SET applied = 99 WHERE applied = 98")
        session.require(found, 1, lambda count: TargetConflict(f"mine {count}"))
        session.execute(f"DELETE FROM {copies.dialect.place(table)} WHERE TRUE")
    assert copies.rows(table) == Counter([(1, "a"), (2, "b")])
    session.close()


def test_a_reading_within_a_transaction_sees_it_and_changes_nothing(copies: Copies) -> None:
    table, session = copies.filled(), copies.session()
    place = copies.dialect.place(table)
    with session.transaction():
        gone = session.execute(f"DELETE FROM {place} WHERE id = 1")
        left = session.count(f"SELECT COUNT(*) FROM {place}")
        assert session.query(f"SELECT id FROM {place}") == [(2,)]
        assert copies.rows(table) == Counter([(1, "a"), (2, "b")])
    assert (int(gone), int(left)) == (1, 1)
    assert copies.rows(table) == Counter([(2, "b")])
    session.close()


def test_a_definition_of_a_worker_that_was_overtaken_is_not_made(copies: Copies) -> None:
    table, session = copies.filled(), copies.session()
    position = copies.dialect.place(copies.dialect.positions(table))
    for applied, made in ((0, False), (1, True)):
        with copies.dialect.guarded(session, f"SELECT 1 FROM {position} WHERE applied = {applied}"):
            if made:
                copies.dialect.drop_column(session, table, "v")
            else:
                with pytest.raises(TargetConflict):
                    copies.dialect.drop_column(session, table, "v")
        columns = copies.dialect.columns(session, table)
        assert columns is not None
        assert ("v" in dict(columns)) != made
    session.close()


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE, Mode.HISTORY])
def test_a_batch_in_parts_is_one_transaction_in_which_later_parts_see_earlier_ones(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setattr("replicator.targets.warehouse.changes.MEMORY", 1)
    table = copies.filled(mode)
    staged = [segment(copies.storage, KEYED, [insert(seq, seq, "x"), update(seq + 1, (1, "a"), (1, f"v{seq}"))])
        for seq in (2, 4, 6)]  # fmt: skip
    change = Merge(staged, KEYED, 7)
    before = copies.rows(table)
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        copies.target.apply(table, change)
    faults.disarm()
    assert copies.rows(table) == before
    copies.target.apply(table, change)
    now = Counter([(1, "v6"), (2, "x"), (4, "x"), (6, "x")])
    if mode is not Mode.HISTORY:
        assert copies.rows(table) == now
    else:
        current = copies.query(f"SELECT id, v FROM {copies.dialect.place(table)} WHERE _is_current")
        assert Counter(current) == now
        assert len(copies.rows(table)) == 8


def test_rows_without_key_that_are_not_there_stop_the_table_with_their_number(copies: Copies) -> None:
    table = TargetTable(copies.namespace, "keyless")
    copies.target.apply(table, Create(KEYLESS, 1, -1, "L1"))
    first = segment(copies.storage, KEYLESS, [insert(0, "a", 0.0), insert(1, "a", -0.0), insert(2, None, float("nan"))])
    copies.target.apply(table, Merge([first], KEYLESS, 2))
    last = segment(copies.storage, KEYLESS, [delete(3, "a", -0.0), delete(4, "a", -0.0)])
    with pytest.raises(TableError, match="1 of 2 rows to delete were not found"):
        copies.target.apply(table, Merge([last], KEYLESS, 4))
    good = segment(copies.storage, KEYLESS, [delete(3, "a", -0.0), delete(4, None, float("nan"))])
    copies.target.apply(table, Merge([good], KEYLESS, 4))
    assert list(map(repr, copies.rows(table, "v", "f"))) == ["('a', 0.0)"]


def test_a_table_that_moves_into_another_dataset_is_there_once(copies: Copies) -> None:
    """Also where a worker ends between the copy and the drop."""
    table = copies.filled()
    other = TargetTable(f"{copies.namespace}_b", table.name)
    faults.arm([Fault("apply.step.before", "fail")])
    with pytest.raises(FaultInjected):
        copies.target.apply(table, Rename(other), "L1")
    faults.disarm()
    session = copies.session()
    session.define(
        f"CREATE TABLE {copies.dialect.place(other)} COPY {copies.dialect.place(table)}"
        f" OPTIONS (labels = [('{COPIED_FROM}', '{_digest(table)}')])"
    )
    worker = copies.another_worker()
    assert worker.position(table) is not None
    assert copies.dialect.columns(session, other) is None
    worker.apply(table, Rename(other), "L1")
    assert worker.position(table) is None
    assert copies.rows(other) == Counter([(1, "a"), (2, "b")])
    assert copies.dialect.columns(session, table) is None
    session.close()


def test_a_table_of_somebody_else_at_the_new_place_is_left_alone(copies: Copies) -> None:
    table = copies.filled()
    other = TargetTable(f"{copies.namespace}_c", table.name)
    faults.arm([Fault("apply.step.before", "fail")])
    with pytest.raises(FaultInjected):
        copies.target.apply(table, Rename(other), "L1")
    faults.disarm()
    copies.query(f"CREATE TABLE {copies.dialect.place(other)} (`mine` INT64)")
    worker = copies.another_worker()
    assert worker.position(table) is not None
    assert copies.query(f"SELECT COUNT(*) FROM {copies.dialect.place(other)} WHERE mine IS NULL") == [(0,)]


def test_a_key_is_the_order_of_a_table_and_its_columns_can_still_change(copies: Copies) -> None:
    pair = schema_of({"a": "int", "b": "binary", "c": "string", "v": "string"}, ["a", "b", "c"])
    table, session = TargetTable(copies.namespace, "clustered"), copies.session()
    copies.target.apply(table, Create(pair, 1, -1, "L1"))
    found = copies.dialect.described(session, table)
    assert found.clustering_fields == ["a", "c"]
    less = schema_of({"A2": "bigint", "b": "binary", "v": "string"}, ["A2", "b"])
    copies.target.apply(table, Evolve(less, 2, {"a": "A2"}), "L1")
    found = copies.dialect.described(session, table)
    assert found.clustering_fields == ["A2"]
    assert {one.name for one in found.schema} == {"A2", "b", "v", "_sequence_num"}
    copies.target.apply(table, Create(KEYED, 3, -1, "L2"))
    assert copies.dialect.described(session, table).clustering_fields == ["id"]
    session.close()


def test_columns_that_are_one_to_bigquery_stop_the_table(copies: Copies) -> None:
    for names in ({"id": "int", "V": "int", "v": "int"}, {"id": "int", "_Sequence_Num": "int"}):
        with pytest.raises(UnsupportedDdl, match="ignores case"):
            copies.target.apply(TargetTable(copies.namespace, "t"), Create(schema_of(names, ["id"]), 1, -1, "L1"))
    with pytest.raises(UnsupportedDdl, match="keeps for itself"):
        copies.target.apply(
            TargetTable(copies.namespace, "t"), Create(schema_of({"id": "int", "_file_x": "int"}, ["id"]), 1, -1, "L1")
        )


def test_a_staging_table_that_is_left_behind_expires(copies: Copies) -> None:
    session, table = copies.session(), copies.filled()
    stage = copies.dialect.stage(session, table, pa.table({"id": pa.array([1], pa.int32())}))
    session.close()
    with closing(copies.server.client()) as client:
        left = client.get_table(stage.replace("`", ""))
    assert timedelta(hours=5) < left.expires - datetime.now(UTC) < timedelta(hours=7)


@pytest.mark.long
def test_of_two_workers_under_faults_every_change_is_done_once(copies: Copies) -> None:
    random, rows, seq = Random(7), list[Row](), 0  # no Counter: the two zeros are one to it
    table = TargetTable(copies.namespace, "keyless")
    copies.target.apply(table, Create(KEYLESS, 1, -1, "L1"))
    batches = []
    for _ in range(15):
        changes = []
        for _ in range(20):
            if rows and random.random() < 0.4:
                changes.append(delete(seq, *rows.pop(random.randrange(len(rows)))))
            else:
                new = (random.choice(["a", "", None]), random.choice([0.0, -0.0, 1.5, None]))
                rows.append(new)
                changes.append(insert(seq, *new))
            seq += 1
        batches.append(Merge([segment(copies.storage, KEYLESS, changes)], KEYLESS, seq - 1))
    done, over = Counter[str](), threading.Event()

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
                done[error.code] += 1

    def break_it() -> None:
        chance = Random(8)
        while not over.wait(2.0):  # sooner, nothing would ever succeed
            copies.trouble(chance.choice(["lost", "refused", "unavailable", "limited", "fail", "conflict", "expire"]))

    breaker = threading.Thread(target=break_it)
    breaker.start()
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(2)))
    finally:
        over.set()
        breaker.join()
    copies.trouble("none")
    found = copies.query(f"SELECT v, f FROM {copies.dialect.place(table)}")
    assert Counter(map(repr, found)) == Counter(map(repr, rows))
    assert done["target_conflict"] + done["target"] > 0


def test_interrupt_ends_what_is_done(copies: Copies) -> None:
    """Again and again, as the scheduler does: a statement may be on its way to the server."""
    session = copies.session()
    started = threading.Event()

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


def test_the_test_of_a_destination_tries_all_and_leaves_nothing(copies: Copies) -> None:
    assert BIGQUERY.check is not None
    assert BIGQUERY.written is not None
    found = BIGQUERY.check(copies.settings)
    assert {one.status for one in found} == {CheckStatus.OK}, found
    assert len(found) == 7
    with closing(copies.server.client()) as client:
        assert not [one for one in client.list_datasets() if one.dataset_id.startswith("tidemark_test")]
    copies.filled()
    assert BIGQUERY.written(copies.settings).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("changes", "told", "remedy"),
    [
        ({"key": {"client_email": "other@x.iam.gserviceaccount.com"}}, "refused the login", "key"),
        ({"endpoint": "http://127.0.0.1:1"}, "cannot be reached", "HTTPS"),
        ({"project": "another-project"}, "does not allow it", "roles/bigquery.jobUser"),
        ({"location": "US"}, "no such object", "test"),
        ({"project": "no project"}, "id of a Google Cloud project", "gcloud projects list"),
        ({"endpoint": "http://private.example"}, "https://", "this machine"),
        ({"endpoint": "https://169.254.169.254"}, "link-local", ""),
        ({"service_account_key": "{}"}, "not the JSON file", "gcloud iam service-accounts keys create"),
        ({"key": {"token_uri": "https://rogue.example/token"}}, "not Google's", "gcloud"),
        ({"key": {"private_key": "no key"}}, "cannot be read", ""),
        ({"impersonate": "nobody"}, "e-mail address", ""),
    ],
)
def test_what_is_wrong_with_a_destination_is_told(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], told: str, remedy: str
) -> None:
    """Patience is for a server that comes back."""
    monkeypatch.setattr("replicator.targets.bigquery.connection.RETRY", DEFAULT_RETRY.with_timeout(1.0))
    assert BIGQUERY.check is not None
    key = json.dumps(json.loads(copies.settings["service_account_key"]) | changes.pop("key", {}))
    (*_, last) = BIGQUERY.check(copies.settings | {"service_account_key": key} | changes)
    assert last.status is CheckStatus.FAILED
    assert re.search(told, last.detail), last
    assert remedy in last.remedy
    assert "PRIVATE KEY" not in str(last)


def test_a_page_shows_figures_rows_and_what_to_paste(copies: Copies) -> None:
    table = copies.filled()
    assert BIGQUERY.report is not None
    assert BIGQUERY.preview is not None
    report = BIGQUERY.report(copies.settings, NO_LAKE, table.namespace, table.name)
    assert report is not None
    assert (report.columns, report.rows) == (2, 2)
    assert "PRIVATE KEY" not in str(report.examples)
    assert f"SELECT * FROM `{copies.server.project}`" in report.examples[0].text
    rows = BIGQUERY.preview(copies.settings, NO_LAKE, table, 5)
    assert rows is not None
    assert {row[:2] for row in map(tuple, rows.rows)} == {("1", "a"), ("2", "b")}
    gone = TargetTable(table.namespace, "gone")
    assert BIGQUERY.report(copies.settings, NO_LAKE, gone.namespace, gone.name) is None
    assert BIGQUERY.preview(copies.settings, NO_LAKE, gone, 5) is None
