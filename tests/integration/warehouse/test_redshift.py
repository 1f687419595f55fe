"""What is Redshift's own: the bucket, logins, conflicts of transactions, its names, and what pages show."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import boto3
import pytest

from replicator import faults
from replicator.errors import TargetConflict, TargetError, TargetUnauthorized, ValueDoesNotFit
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.sources.base import CheckStatus
from replicator.targets.base import Create, Drop, Evolve, Merge, Rename, TargetTable
from replicator.targets.kind import Opening
from replicator.targets.redshift.aws import FOLDER, LOAD_SECONDS, Aws
from replicator.targets.redshift.config import destination
from replicator.targets.redshift.connection import RedshiftSession
from replicator.targets.redshift.kind import REDSHIFT
from testing.servers.glue import EmbeddedGlue
from tests.integration.warehouse.copies import RedshiftCopies
from tests.staged import delete, insert, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "b": "binary"}, ["id"])
KEYLESS = schema_of({"v": "string", "f": "double", "b": "binary", "at": "timestamp"})


def test_the_test_of_a_destination_leaves_no_file(shift: RedshiftCopies) -> None:
    assert REDSHIFT.check is not None
    assert {one.status for one in REDSHIFT.check(shift.settings)} == {CheckStatus.OK}
    assert shift.files() == []


def test_copy_reads_the_bucket_by_role_or_by_keys(shift: RedshiftCopies) -> None:
    for how in ("role", "keys"):
        shift.settings |= {"load": how}
        shift.target = shift.another_worker()
        table = shift.table(KEYED)
        shift.merge(table, KEYED, insert(0, 1, "a", b"\0\xff"), insert(1, 2, None, None))
        assert Counter(shift.rows(table)) == Counter([(1, "a", b"\0\xff"), (2, None, None)])
    assert shift.files() == []


@pytest.mark.parametrize(
    ("auth", "more"), [("iam_cluster", {"cluster": "c"}), ("iam_serverless", {"workgroup": "copies"})]
)
def test_logins_are_made_by_aws(shift: RedshiftCopies, glue: EmbeddedGlue, auth: str, more: dict[str, str]) -> None:
    """As moto plays it; what it makes is a login that the stand-in does not know."""
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y", "region_name": "us-east-1"}
    if auth == "iam_cluster":
        made = boto3.client("redshift", endpoint_url=glue.endpoint, **keys)
        made.create_cluster(
            ClusterIdentifier="c", NodeType="ra3.large", MasterUsername="m", MasterUserPassword="Pw123456"
        )
    settings = {**shift.settings, "auth": auth, "aws_endpoint": glue.endpoint, "region": "us-east-1", **more}
    if auth == "iam_serverless":  # moto has no such call
        with pytest.raises(TargetError, match="GetCredentials"):
            Aws(destination(settings)).login()
        return
    user, password = Aws(destination(settings)).login()
    assert user == f"IAM:{settings['user']}"
    assert len(password) > 8
    with pytest.raises(TargetUnauthorized, match="refused the login"):
        RedshiftSession(destination(settings), Aws(destination(settings)))
    with pytest.raises(TargetError, match="ClusterNotFound"):
        Aws(destination({**settings, "cluster": "other"})).login()


def test_a_file_that_a_dead_worker_left_is_swept_and_a_young_one_stays(shift: RedshiftCopies) -> None:
    aws, table = Aws(destination(shift.settings)), shift.table(KEYED)
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        shift.merge(table, KEYED, insert(0, 1, "a", None))
    faults.disarm()
    assert shift.files() == []  # a load's file is gone once it is loaded
    aws.put(schema_rows())
    (left,) = shift.files()
    assert f"/{FOLDER}/" in left
    lake: Any = None
    opening = Opening(lake, lake, shift.storage, "", shift.settings, "")
    assert REDSHIFT.clean is not None
    assert REDSHIFT.clean(opening, time.time()) == 0
    assert REDSHIFT.clean(opening, time.time() + LOAD_SECONDS + 60) == 1
    assert shift.files() == []


def schema_rows() -> Any:
    import pyarrow as pa

    return pa.table({"id": [1]})


def test_a_load_that_fails_leaves_no_file_and_no_row(shift: RedshiftCopies) -> None:
    table = shift.table(KEYED)
    staged = shift.segment(KEYED, [insert(0, 1, "a", None)])
    shift.settings |= {"iam_role": "arn:aws:iam::123456789012:role/other"}
    with pytest.raises(TargetUnauthorized, match="staging bucket") as told:
        shift.another_worker().apply(table, Merge([staged], KEYED, 0), "L1")
    assert told.value.retryable
    assert (shift.files(), shift.rows(table)) == ([], [])


def test_two_workers_in_one_transactions_way_are_told_a_conflict(shift: RedshiftCopies) -> None:
    """Both have read the position before either moves it; the second waits, and is refused by error 1023."""
    table = shift.table(KEYED)
    staged = shift.segment(KEYED, [insert(0, 1, "a", None)])
    barrier, found = threading.Barrier(2), Counter[str]()

    def work() -> None:
        target = shift.another_worker()
        target.position(table)
        barrier.wait()
        try:
            found[target.apply(table, Merge([staged], KEYED, 0), "L1").how] += 1
        except TargetConflict:
            found["conflict"] += 1

    for _ in range(5):
        threads = [threading.Thread(target=work) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert shift.rows(table) == [(1, "a", None)]
    assert found["append"] == 1, found
    assert found.total() == 10


def test_tables_of_one_schema_do_not_conflict(shift: RedshiftCopies) -> None:
    tables, failed = [shift.table(KEYED) for _ in range(3)], Counter[str]()

    def work(table: TargetTable) -> None:
        target = shift.another_worker()
        for seq in range(5):
            staged = shift.segment(KEYED, [insert(seq, seq, "a", None)])
            try:
                target.apply(table, Merge([staged], KEYED, seq), "L1")
            except TargetError as error:
                failed[error.message] += 1

    threads = [threading.Thread(target=work, args=(one,)) for one in tables]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
    assert [len(shift.rows(one)) for one in tables] == [5, 5, 5]


def test_rows_without_key_are_told_apart_by_all_that_they_hold(shift: RedshiftCopies) -> None:
    import datetime as dt

    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.UTC)
    rows = [
        ("a", 0.0, b"", at), ("a", -0.0, b"", at), ("a ", 0.0, b"", at), (None, 0.0, b"", at), ("", 0.0, b"", at),
        ("a", None, None, None), ("a", None, None, None), ("a" * 70 + "b", 1.5, b"x", at),
        ("a" * 70 + "c", 1.5, b"x", at),
        ("\\'\n", float("nan"), b"\xff", at),
    ]  # fmt: skip
    table = shift.table(KEYLESS)
    shift.merge(table, KEYLESS, *[insert(n, *row) for n, row in enumerate(rows)])
    assert len(shift.rows(table)) == len(rows)
    for n, row in enumerate(rows):
        shift.merge(table, KEYLESS, delete(100 + n, *row))
        left = shift.rows(table)
        assert len(left) == len(rows) - n - 1
        assert Counter(map(repr, left)) == Counter(map(repr, rows[n + 1 :]))


@pytest.mark.parametrize("name", ["s", "t"])
def test_a_table_may_be_called_as_statements_call_theirs(shift: RedshiftCopies, name: str) -> None:
    table = shift.table(KEYED, name, mode=Mode.HISTORY)
    shift.merge(table, KEYED, insert(0, 1, "a", None))
    shift.merge(table, KEYED, update(1, (1, "a", None), (1, "b", None)))
    mirror = shift.target.apply(table, Create(KEYED, 2, 1, "L2"), "L1")
    assert mirror.how == "recreate"
    shift.merge(table, KEYED, insert(2, 1, "a", None))
    shift.merge(table, KEYED, update(3, (1, "a", None), (1, "b", None)), delete(4, 2, None, None))
    assert shift.rows(table) == [(1, "b", None)]
    rows = shift.table(KEYLESS, "s" if name == "t" else "t")
    shift.merge(rows, KEYLESS, insert(0, "a", None, None, None), delete(1, "a", None, None, None))
    assert shift.rows(rows) == []


def test_a_drop_and_a_wider_type_copy_the_table_with_its_rows(shift: RedshiftCopies) -> None:
    table = shift.table(KEYED)
    shift.merge(table, KEYED, insert(0, 1, "a", b"x"), insert(1, 2, None, None))
    wider = schema_of({"id": "bigint", "w": "string", "n": "int"}, ["id"])
    shift.target.apply(table, Evolve(wider, 2, {"v": "w"}), "L1")
    assert list(shift.columns(table).values()) == ["bigint", "character varying(65535)", "bigint", "integer"]
    staged = shift.segment(wider, [update(2, (1, "a", None), (2**40, "A", 7))], 2)
    shift.target.apply(table, Merge([staged], wider, 2), "L1")
    assert Counter(shift.rows(table)) == Counter([(2**40, "A", 7), (2, None, None)])
    assert shift.query("SELECT 1 FROM pg_class WHERE relname LIKE '\\_tidemark\\_rebuilt%'") == []


def test_a_dropped_table_takes_its_position_along(shift: RedshiftCopies) -> None:
    left = f"SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = '{shift.namespace}'"
    table = shift.table(KEYED)
    assert len(shift.query(left)) == 2
    shift.target.apply(table, Rename(new := TargetTable(shift.namespace, "other")), "L1")
    assert len(shift.query(left)) == 2
    shift.target.apply(new, Rename(moved := TargetTable(f"{shift.namespace}_2", "third")), "L1")
    assert shift.query(left) == []
    assert shift.target.position(moved) is not None
    shift.target.apply(moved, Drop())
    assert shift.target.position(moved) is None
    shift.target.apply(moved, Create(KEYED, 1, -1, "L2"))
    shift.target.apply(moved, Drop())


def test_a_value_without_room_stops_the_table(shift: RedshiftCopies) -> None:
    table = shift.table(KEYED)
    shift.merge(table, KEYED, insert(0, 1, "x" * 65535, b"y" * 100_000))
    with pytest.raises(ValueDoesNotFit, match="65536 bytes") as found:
        shift.merge(table, KEYED, insert(1, 2, "ä" * 32768, None))
    assert found.value.column == "v"
    assert len(shift.rows(table)) == 1


def test_columns_keep_their_case_and_odd_names_their_characters(shift: RedshiftCopies) -> None:
    schema = schema_of({"Id": "int", "id": "int", "a b\\'c": "string"}, ["Id"])
    table = shift.table(schema, "it's\\x")
    shift.merge(table, schema, insert(0, 1, 2, "v"), update(1, (1, 2, "v"), (1, 3, "\\w")))
    assert shift.rows(table) == [(1, 3, "\\w")]
    at = shift.target.position(table)
    assert at is not None
    assert at.applied == 1
