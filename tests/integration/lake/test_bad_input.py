"""What a catalog or a store refuses is one sentence with a remedy: in the destination's test, and at the table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import TargetError, TargetUnauthorized, TidemarkError
from replicator.sources.base import CheckStatus
from replicator.staging.storage import Storage
from replicator.targets.base import Create, Evolve, Merge, Position, Rename, Target, TargetTable
from replicator.targets.delta.destination import delta_store
from replicator.targets.delta.target import DeltaTarget
from replicator.targets.iceberg.destination import NO_LAKE, lake_catalog
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.target import IcebergTarget
from replicator.targets.registry import target_kind
from testing.servers.rest_front import OAuth, RestFront
from testing.servers.stores.s3_answers import S3Answers
from tests.contract.targets.places import jdbc_settings
from tests.staged import insert, schema_of, segment
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
NUMBERS = itertools.count(1)
NOWHERE = "http://127.0.0.1:1"
KEYS = {"credentials": "keys", "access_key_id": "AKIATEST", "secret_access_key": "s3cr3t-of-the-store"}
SECRETS = ("s3cr3t-of-the-store", "wrong-password", "wrong-secret", "wrong-token")
REST = {"catalog": "rest", "store": "file", "auth": "none"}
TABLES = r"/tables$"


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[S3Answers]:
    """A store that answers reads with NoSuchKey and writes with the parameter; `all …`: both with the parameter."""
    code = request.param.removeprefix("all ")
    read = code if code != request.param else "NoSuchKey"
    made = S3Answers({"GET": read, "HEAD": read, "PUT": code, "POST": code, "DELETE": code})
    made.start()
    yield made
    made.stop()


@pytest.fixture
def jdbc(postgres_url: str) -> dict[str, str]:
    return jdbc_settings(postgres_url)


def iceberg(settings: dict[str, str], folder: Path) -> IcebergTarget:
    lake = lake_catalog(settings, NO_LAKE)
    config = SparkConfig(
        spark_jars(lake.bundles), properties=lake.java, warehouse=lake.warehouse, master="local[2]",
        java_options=java_options(),
    )  # fmt: skip
    return IcebergTarget(SparkPool(config), Storage(f"file://{folder}/staging"), "r1", layout=Layout.parse(settings))


def new_table() -> TargetTable:
    return TargetTable("bad_input", f"t{next(NUMBERS)}")


def told(error: TidemarkError) -> tuple[str, str]:
    for secret in SECRETS:
        assert secret not in f"{error.message} {error.remedy} {error.stack}"
    assert "\n" not in error.message
    return error.message, error.remedy


def checked(kind: str, settings: dict[str, str]) -> tuple[str, str]:
    """What the destination's test says of what it ends with."""
    check = target_kind(kind).check
    assert check is not None
    found = check(settings)
    assert found[-1].status is CheckStatus.FAILED, found
    assert not any(secret in str(found) for secret in SECRETS)
    return found[-1].detail, found[-1].remedy


def at_the_table(target: Target, change: Any = None) -> TidemarkError:
    with pytest.raises(TargetError) as raised:
        target.apply(new_table(), change or Create(KEYED, 1, -1, "L1"))
    assert raised.value.retryable
    return raised.value


def same(found: tuple[str, str], message: str, remedy: str) -> None:
    assert re.search(message, found[0]), found
    assert re.search(remedy, found[1]), found


AWAY = ("does not answer", "Check the address")


@pytest.mark.parametrize(
    ("settings", "test", "table"),
    [
        ({**REST, "uri": NOWHERE}, AWAY, AWAY),
        ({**REST, "uri": "http://no-such-host.invalid"}, AWAY, AWAY),
        ({"uri": "postgresql://127.0.0.1:1/d"}, AWAY, AWAY),
        (
            {"uri": "/nothing"},
            ("database of the catalog does not exist", "Create the database"),
            ("database of the catalog is missing", "Create the database"),
        ),
        (
            {"uri": "/template1", "username": "nobody-of-them"},
            ("refuses the user or the password", "wrong or have expired"),
            ("refuses the credentials", "Check the credentials"),
        ),
        (
            {"password": "wrong-password"},
            ("refuses the user or the password", "wrong or have expired"),
            ("refuses the credentials", "Check the credentials"),
        ),
        ({"catalog": "hive", "uri": "thrift://127.0.0.1:1"}, AWAY, AWAY),
        (
            {"catalog": "glue", "store": "s3", "warehouse": "s3://b/x", "glue_endpoint": NOWHERE, "keys": "AKIATEST"},
            AWAY,
            AWAY,
        ),
    ],
)  # fmt: skip
def test_a_catalog_that_is_away_or_refuses_the_user(
    jdbc: dict[str, str], settings: dict[str, str], test: Any, table: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    whole = {**jdbc, "store": "file", "warehouse": f"file://{tmp_path}/lake", **settings}
    if whole["uri"].startswith("/"):
        whole["uri"] = jdbc["uri"].rpartition("/")[0] + whole["uri"]
    target = iceberg({name: value for name, value in whole.items() if name != "keys"}, tmp_path)
    if key := whole.pop("keys", ""):
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS[0])
        system = target._spark.spark().jvm.java.lang.System  # a JVM that has begun before has another environment
        system.setProperty("aws.accessKeyId", key)
        system.setProperty("aws.secretAccessKey", SECRETS[0])
    same(checked("iceberg", whole), *test)
    same(told(at_the_table(target)), *table)


def test_a_database_without_tables_of_a_catalog(jdbc: dict[str, str], tmp_path: Path) -> None:
    """Iceberg's own client makes them, pyiceberg is not let: theirs are others."""
    whole = {**jdbc, "store": "file", "warehouse": f"file://{tmp_path}/lake"}
    whole["uri"] = f"{jdbc['uri'].rpartition('/')[0]}/template1"
    same(checked("iceberg", whole), "contains no catalog tables", "it makes them")


@pytest.mark.parametrize(
    ("signs", "settings"),
    [
        ({"token": "right"}, {"auth": "token", "token": "wrong-token"}),
        ({"oauth": OAuth({"me": "right"})}, {"auth": "oauth2", "client_id": "me", "client_secret": "wrong-secret"}),
    ],
    ids=["token", "secret"],
)
def test_a_token_that_is_not_taken_or_has_expired(
    front: Callable[..., RestFront], signs: dict[str, Any], settings: dict[str, str], tmp_path: Path
) -> None:
    before = front(**signs)
    whole = {**REST, "uri": before.uri, **settings}
    same(checked("iceberg", whole), "refuses the credentials", "wrong or have expired")
    error = at_the_table(iceberg(whole, tmp_path))
    assert isinstance(error, TargetUnauthorized)
    same(told(error), "refuses the credentials", "Check the credentials")


@pytest.mark.parametrize(
    ("status", "path", "test", "table"),
    [
        (403, TABLES, ("does not allow it", "the privilege"), ("does not allow it", "its rights in the catalog")),
        (400, TABLES, ("does not take the table", "format version"), ("does not take the table", "format version")),
        (503, TABLES, ("is not available", "Test again later"), ("does not answer", "resumes automatically")),
        pytest.param(
            429, TABLES, ("is not available", "Test again later"), ("fewer requests|does not answer", "automatically"),
            marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_a_namespace_or_a_table_that_the_user_may_not_make(
    front: Callable[..., RestFront], status: int, path: str, test: Any, table: Any, tmp_path: Path
) -> None:
    """403: it is another one's.  The next attempt is right."""
    before = front()
    whole, tries = {**REST, "uri": before.uri}, 9 if status > 403 else 1
    before.answer(status, path=path, times=tries)
    same(checked("iceberg", whole), *test)
    before.clear()
    target, name = iceberg(whole, tmp_path), new_table()
    before.answer(status, path=path, times=tries)
    same(told(at_the_table(target)), *table)
    before.clear()
    target.apply(name, Create(KEYED, 1, -1, "L1"))
    assert target.position(name) == Position(-1, -1, 1, "L1")


def test_a_commit_whose_answer_is_forgotten(front: Callable[..., RestFront], tmp_path: Path) -> None:
    """At the table it is looked up; the destination's test leaves nothing behind."""
    before = front()
    whole = {**REST, "uri": before.uri}
    for trouble, said in (
        (lambda: before.forward_and_answer(504), "did not say whether"),
        (before.lose_answer, "does not answer"),
    ):
        trouble()
        same(checked("iceberg", whole), said, "Test again later|Check the address")
        before.clear()
    target, name = iceberg(whole, tmp_path), new_table()
    target.apply(name, Create(KEYED, 1, -1, "L1"))
    batch = Merge([segment(Storage(f"file://{tmp_path}/staging"), KEYED, [insert(0, 1, "x")])], KEYED, 0)
    before.forward_and_answer(504, times=3)
    for _ in range(3):
        try:
            target.apply(name, batch)
            break
        except TargetError as error:
            same(told(error), "did not say whether|does not answer", "automatically")
    before.clear()
    assert target.position(name) == Position(0, -1, 1, "L1")
    assert target.apply(name, batch).how == "skip"


def test_a_format_that_the_catalog_does_not_have(front: Callable[..., RestFront], tmp_path: Path) -> None:
    """The test of a replicator's target settings tries it in a REST catalog."""
    before = front()
    whole = {**REST, "uri": before.uri, "format_version": "3", "table_properties": "theirs=1"}
    check = target_kind("iceberg").check
    assert check is not None
    found = check(whole)
    assert [one.status for one in found] == [CheckStatus.OK] * 6, found
    assert "format version 3" in found[4].detail
    before.answer(400, path=TABLES, times=1)
    same(checked("iceberg", whole), "does not take the table", "format version")
    target, name = iceberg(whole, tmp_path), new_table()
    before.answer(400, path=TABLES, times=1)
    same(told(at_the_table(target)), "does not take the table", "format version")
    target.apply(name, Create(KEYED, 1, -1, "L1"))


def test_partitions_that_a_table_cannot_have(front: Callable[..., RestFront], tmp_path: Path) -> None:
    for said, line in (("nothing", "shop.t: nothing"), ("v", "shop.t: month(v)"), ("at", "shop.t: day(at)")):
        target = iceberg({**REST, "uri": front().uri, "partition_by": line}, tmp_path)
        with pytest.raises(TidemarkError, match=said) as raised:
            target.apply(new_table(), Create(KEYED, 1, -1, "L1"))
        assert "artition" in f"{raised.value.message}{raised.value.remedy}"


STORE_TROUBLE = {
    "AccessDenied": (("does not allow it", "may list, read, write"), ("does not allow it", "its rights in")),
    "all InvalidAccessKeyId": (("does not allow it", "credentials"), ("refuses the credentials", "credentials")),
    "all ExpiredToken": (("refuses the credentials", "have expired"), ("refuses the credentials", "credentials")),
    "all NoSuchBucket": (("bucket does not exist", "Create the bucket"),) * 2,
    "all SlowDown": (("is not available", "Test again later"), ("fewer requests", "Retried automatically")),
}  # fmt: skip


@pytest.mark.parametrize(
    "store",
    [pytest.param(one, marks=pytest.mark.long if "Slow" in one else ()) for one in STORE_TROUBLE],
    indirect=True,
)
def test_a_store_that_refuses(
    store: S3Answers, front: Callable[..., RestFront], jdbc: dict[str, str], tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    test, table = STORE_TROUBLE[request.node.callspec.params["store"]]
    whole = {**jdbc, "store": "s3", "warehouse": f"{store.url}/lake", "store_endpoint": store.endpoint, **KEYS}
    target = iceberg(whole, tmp_path)
    target.position(TargetTable("bad_input", "none"))  # the catalog's tables are there
    same(checked("iceberg", whole), *test)
    same(told(at_the_table(target)), *table)
    del front


DELTA_TROUBLE = {
    "AccessDenied": ("does not allow it.*AccessDenied", "list, read, write and delete"),
    "all InvalidAccessKeyId": ("refuses the credentials", "wrong or have expired"),
    "all ExpiredToken": ("refuses the credentials", "wrong or have expired"),
    "all NoSuchBucket": ("bucket of .* does not exist", "Create the bucket"),
    "all SlowDown": ("is not available", "Retried automatically"),
}


@pytest.mark.parametrize("store", DELTA_TROUBLE, indirect=True)
def test_a_store_of_delta_lake_that_refuses(store: S3Answers, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    whole = {"store": "s3", "location": f"{store.url}/delta", "store_endpoint": store.endpoint, **KEYS}
    expected = DELTA_TROUBLE[request.node.callspec.params["store"]]
    same(checked("delta", whole), *expected)
    target = DeltaTarget(delta_store(whole, NO_LAKE), Storage(f"file://{tmp_path}/staging"), "r1")
    same(told(at_the_table(target)), *expected)


def test_a_store_of_delta_lake_that_is_away(tmp_path: Path) -> None:
    whole = {"store": "s3", "location": "s3://bucket/delta", "store_endpoint": NOWHERE, **KEYS}
    same(checked("delta", whole), *AWAY)
    target = DeltaTarget(delta_store(whole, NO_LAKE), Storage(f"file://{tmp_path}/staging"), "r1")
    same(told(at_the_table(target)), *AWAY)
    with pytest.raises(TargetError, match="does not answer"):
        target.position(new_table())


def test_a_delta_table_that_another_owns_or_that_is_not_tidemarks(tmp_path: Path) -> None:
    store = delta_store({"store": "file", "location": f"file://{tmp_path}/delta"}, NO_LAKE)
    storage, name = Storage(f"file://{tmp_path}/staging"), new_table()
    ours = DeltaTarget(store, storage, "r1")
    DeltaTarget(store, storage, "r2").apply(name, Create(KEYED, 1, -1, "L1"))
    other = new_table()
    ours.apply(other, Create(KEYED, 1, -1, "L1"))
    for act in (
        lambda: ours.apply(name, Create(KEYED, 1, -1, "L1")),
        lambda: ours.apply(name, Evolve(KEYED, 2)),
        lambda: ours.position(name),
    ):
        with pytest.raises(TargetError) as raised:
            act()
        same(told(raised.value), "was not created by this replicator", "another name")
    with pytest.raises(TargetError) as raised:
        ours.apply(other, Rename(name))
    same(told(raised.value), "still exists in the target", "drop")
