"""What is BigQuery's own: what is lost and tried again, scripts that are transactions, tables that move, its names."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from replicator import faults
from replicator.errors import TableError, TargetConflict, TargetError, UnsupportedDdl
from replicator.faults import Fault, FaultInjected
from replicator.targets.base import Create, Evolve, Merge, Rename, TargetTable
from replicator.targets.bigquery.dialect import COPIED_FROM, _digest
from tests.integration.warehouse.clouds import BigQueryCopies
from tests.integration.warehouse.copies import KEYED
from tests.staged import delete, insert, schema_of, segment, update

pytestmark = pytest.mark.integration
KEYLESS = schema_of({"v": "string", "f": "double"})


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
def test_what_passes_is_tried_again_and_done_once(big: BigQueryCopies, what: str, said: dict[str, Any]) -> None:
    table = big.filled()
    big.ask(what, **said)
    done = big.target.apply(
        table, big.change(KEYED, update(2, (1, "a"), (1, "A")), insert(3, 3, "c"), delete(4, 2, "b"))
    )
    assert (done.how, done.inserted, done.updated, done.deleted) == ("merge", 1, 1, 1)
    assert Counter(big.rows(table)) == Counter([(1, "A"), (3, "c")])


def test_a_transaction_that_is_done_and_said_to_have_failed_is_not_done_again(big: BigQueryCopies) -> None:
    table, change = big.filled(), big.change(KEYED, update(2, (1, "a"), (1, "A")), insert(3, 3, "c"))
    big.ask("fail_late", of="script")
    with pytest.raises(TargetConflict, match="Another worker committed"):
        big.target.apply(table, change)
    assert big.target.apply(table, change).how == "skip"
    assert Counter(big.rows(table)) == Counter([(1, "A"), (2, "b"), (3, "c")])


@pytest.mark.parametrize(
    ("what", "said", "kind", "told", "remedy"),
    [
        ("conflict", {}, TargetConflict, "overtaken", "automatically"),
        ("fail", {"reason": "quotaExceeded"}, TargetError, "used up a quota", "seconds between commits"),
        ("fail", {"reason": "stopped"}, TargetError, "cancelled", "automatically"),
    ],
)
def test_what_fails_leaves_rows_and_position_as_they_were(
    big: BigQueryCopies, what: str, said: dict[str, Any], kind: type[TargetError], told: str, remedy: str
) -> None:
    table = big.filled()
    change = big.change(KEYED, update(2, (1, "a"), (1, "A")))
    big.ask(what, **said)
    with pytest.raises(TargetError, match=told) as found:
        big.target.apply(table, change)
    assert type(found.value) is kind
    assert remedy in found.value.remedy
    at = big.target.position(table)
    assert at is not None
    assert at.applied == 1
    assert Counter(big.rows(table)) == Counter([(1, "a"), (2, "b")])
    big.target.apply(table, change)
    assert Counter(big.rows(table)) == Counter([(1, "A"), (2, "b")])


def test_a_worker_that_was_overtaken_is_refused_by_the_script(big: BigQueryCopies) -> None:
    table, slow = big.filled(), big.another_worker()
    change = big.change(KEYED, insert(2, 3, "c"))
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        slow.apply(table, change)
    faults.disarm()
    session = big.session()
    position = big.dialect.place(big.dialect.positions(table))
    with pytest.raises(TargetConflict, match="mine 0"), session.transaction():  # noqa: PT012 - it ends the block
        found = session.execute(f"UPDATE {position} SET applied = 99 WHERE applied = 98")
        session.require(found, 1, lambda count: TargetConflict(f"mine {count}"))
        session.execute(f"DELETE FROM {big.dialect.place(table)} WHERE TRUE")
    assert Counter(big.rows(table)) == Counter([(1, "a"), (2, "b")])
    session.close()


def test_a_reading_within_a_transaction_sees_it_and_changes_nothing(big: BigQueryCopies) -> None:
    table, session = big.filled(), big.session()
    place = big.dialect.place(table)
    with session.transaction():
        gone = session.execute(f"DELETE FROM {place} WHERE id = 1")
        left = session.count(f"SELECT COUNT(*) FROM {place}")
        assert session.query(f"SELECT id FROM {place}") == [(2,)]
        assert Counter(big.rows(table)) == Counter([(1, "a"), (2, "b")])
    assert (int(gone), int(left)) == (1, 1)
    assert Counter(big.rows(table)) == Counter([(2, "b")])
    session.close()


def test_a_definition_of_a_worker_that_was_overtaken_is_not_made(big: BigQueryCopies) -> None:
    table, session = big.filled(), big.session()
    position = big.dialect.place(big.dialect.positions(table))
    for applied, made in ((0, False), (1, True)):
        with big.dialect.guarded(session, f"SELECT 1 FROM {position} WHERE applied = {applied}"):
            if made:
                big.dialect.drop_column(session, table, "v")
            else:
                with pytest.raises(TargetConflict):
                    big.dialect.drop_column(session, table, "v")
        columns = big.dialect.columns(session, table)
        assert columns is not None
        assert ("v" in dict(columns)) != made
    session.close()


def test_rows_without_key_that_are_not_there_stop_the_table_with_their_number(big: BigQueryCopies) -> None:
    table = TargetTable(big.namespace, "keyless")
    big.target.apply(table, Create(KEYLESS, 1, -1, "L1"))
    first = segment(big.storage, KEYLESS, [insert(0, "a", 0.0), insert(1, "a", -0.0), insert(2, None, float("nan"))])
    big.target.apply(table, Merge([first], KEYLESS, 2))
    last = segment(big.storage, KEYLESS, [delete(3, "a", -0.0), delete(4, "a", -0.0)])
    with pytest.raises(TableError, match="1 of 2 rows to delete were not found"):
        big.target.apply(table, Merge([last], KEYLESS, 4))
    good = segment(big.storage, KEYLESS, [delete(3, "a", -0.0), delete(4, None, float("nan"))])
    big.target.apply(table, Merge([good], KEYLESS, 4))
    assert list(map(repr, big.values(table, "v", "f"))) == ["('a', 0.0)"]


def test_a_table_that_moves_into_another_dataset_is_there_once(big: BigQueryCopies) -> None:
    """Also where a worker ends between the copy and the drop."""
    table = big.filled()
    other = TargetTable(f"{big.namespace}_b", table.name)
    faults.arm([Fault("apply.step.before", "fail")])
    with pytest.raises(FaultInjected):
        big.target.apply(table, Rename(other), "L1")
    faults.disarm()
    session = big.session()
    session.define(
        f"CREATE TABLE {big.dialect.place(other)} COPY {big.dialect.place(table)}"
        f" OPTIONS (labels = [('{COPIED_FROM}', '{_digest(table)}')])"
    )
    worker = big.another_worker()
    assert worker.position(table) is not None
    assert big.dialect.columns(session, other) is None
    worker.apply(table, Rename(other), "L1")
    assert worker.position(table) is None
    assert Counter(big.rows(other)) == Counter([(1, "a"), (2, "b")])
    assert big.dialect.columns(session, table) is None
    session.close()


def test_a_table_of_somebody_else_at_the_new_place_is_left_alone(big: BigQueryCopies) -> None:
    table = big.filled()
    other = TargetTable(f"{big.namespace}_c", table.name)
    faults.arm([Fault("apply.step.before", "fail")])
    with pytest.raises(FaultInjected):
        big.target.apply(table, Rename(other), "L1")
    faults.disarm()
    big.query(f"CREATE TABLE {big.dialect.place(other)} (`mine` INT64)")
    worker = big.another_worker()
    assert worker.position(table) is not None
    assert big.query(f"SELECT COUNT(*) FROM {big.dialect.place(other)} WHERE mine IS NULL") == [(0,)]


def test_a_key_is_the_order_of_a_table_and_its_columns_can_still_change(big: BigQueryCopies) -> None:
    pair = schema_of({"a": "int", "b": "binary", "c": "string", "v": "string"}, ["a", "b", "c"])
    table, session = TargetTable(big.namespace, "clustered"), big.session()
    big.target.apply(table, Create(pair, 1, -1, "L1"))
    found = big.dialect.described(session, table)
    assert found.clustering_fields == ["a", "c"]
    less = schema_of({"A2": "bigint", "b": "binary", "v": "string"}, ["A2", "b"])
    big.target.apply(table, Evolve(less, 2, {"a": "A2"}), "L1")
    found = big.dialect.described(session, table)
    assert found.clustering_fields == ["A2"]
    assert {one.name for one in found.schema} == {"A2", "b", "v", "_sequence_num"}
    big.target.apply(table, Create(KEYED, 3, -1, "L2"))
    assert big.dialect.described(session, table).clustering_fields == ["id"]
    session.close()


def test_columns_that_are_one_to_bigquery_stop_the_table(big: BigQueryCopies) -> None:
    for names in ({"id": "int", "V": "int", "v": "int"}, {"id": "int", "_Sequence_Num": "int"}):
        with pytest.raises(UnsupportedDdl, match="ignores case"):
            big.target.apply(TargetTable(big.namespace, "t"), Create(schema_of(names, ["id"]), 1, -1, "L1"))
    with pytest.raises(UnsupportedDdl, match="keeps for itself"):
        big.target.apply(
            TargetTable(big.namespace, "t"), Create(schema_of({"id": "int", "_file_x": "int"}, ["id"]), 1, -1, "L1")
        )


def test_a_staging_table_that_is_left_behind_expires(big: BigQueryCopies) -> None:
    session, table = big.session(), big.filled()
    stage = big.dialect.stage(session, table, pa.table({"id": pa.array([1], pa.int32())}))
    session.close()
    with closing(big.server.client()) as client:
        left = client.get_table(stage.replace("`", ""))
    assert timedelta(hours=5) < left.expires - datetime.now(UTC) < timedelta(hours=7)
