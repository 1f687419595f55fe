"""A destination in a REST catalog: signed in to, in trouble, and checked."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

from replicator.errors import TargetConflict, TargetError, TargetUnauthorized
from replicator.sources.base import CheckStatus
from replicator.staging.storage import Storage
from replicator.targets.base import Create, Drop, Evolve, Merge, Position, TargetTable
from replicator.targets.iceberg.check import check
from replicator.targets.iceberg.destination import LakeCatalog, lake_catalog
from replicator.targets.iceberg.direct.writer import SPARK_ONLY
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.layout import Layout
from replicator.targets.iceberg.table import commit, schema_update
from replicator.targets.iceberg.target import IcebergTarget, clean
from replicator.targets.kind import Opening
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import OAuth, RestFront, SigV4
from testing.servers.stores.s3 import EmbeddedS3
from tests.environment import HOME
from tests.staged import Row, delete, insert, schema_of, segment, update
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "int", "v": "string", "more": "int"}, ["id"])
WIDEST = schema_of({"id": "int", "v": "string", "more": "int", "most": "int"}, ["id"])
SECRET = "s3cr3t-of-the-client"
OWN = LakeCatalog({}, {})


@dataclass
class Place:
    """A catalog behind a front, and who writes to it."""

    front: RestFront
    settings: dict[str, str]
    storage: Storage
    read: Callable[[TargetTable], list[Row]]
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**9)))

    def spark(self, lake: LakeCatalog) -> SparkPool:
        jars = spark_jars(lake.bundles)
        return SparkPool(SparkConfig(jars, properties=lake.java, master="local[2]", java_options=java_options()))

    def target(self, **options: Any) -> IcebergTarget:
        return IcebergTarget(self.spark(lake_catalog(self.settings, OWN)), self.storage, "r1", **options)

    def table(self, name: str) -> TargetTable:
        made = TargetTable("rest_tests", name)
        self.target().apply(made, Create(KEYED, 1, -1, "L1"))
        return made

    def batch(self, upto: int, *changes: Any) -> Merge:
        return Merge([segment(self.storage, KEYED, changes)], KEYED, upto)


@pytest.fixture
def place(rest_catalog: EmbeddedRestCatalog, front: Callable[..., RestFront], tmp_path: Path) -> Place:
    """Clients sign in by OAuth2."""
    before = front(oauth=OAuth({"tidemark": SECRET}))
    settings = {"catalog": "rest", "uri": before.uri, "client_id": "tidemark", "client_secret": SECRET, "store": "file"}

    def read(table: TargetTable) -> list[Row]:
        found = RestCatalog("reader", uri=rest_catalog.uri).load_table((table.namespace, table.name)).scan().to_arrow()
        return sorted(tuple(row[name] for name in KEYED.names) for row in found.to_pylist())

    return Place(before, settings, Storage(f"file://{tmp_path}/staging"), read)


def test_a_token_that_was_revoked_is_asked_for_again(place: Place) -> None:
    target, table = place.target(), place.table("revoked")
    target.apply(table, place.batch(0, insert(0, 1, "x")))
    place.front.expire()
    with pytest.raises(TargetUnauthorized) as raised:
        target.apply(table, place.batch(1, insert(1, 2, "y")))
    assert SECRET not in f"{raised.value.message} {raised.value.remedy} {raised.value.stack}"
    target.apply(table, place.batch(1, insert(1, 2, "y")))
    assert place.read(table) == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("limits", [{}, {"limits": SPARK_ONLY}], ids=["direct", "spark"])
def test_a_commit_whose_answer_is_lost_is_done_once(place: Place, limits: dict[str, Any]) -> None:
    """For any answer of the catalog: the target looks up what the catalog has."""
    table = place.table(f"lost_{len(limits)}")
    target = place.target(**limits)
    target.apply(table, place.batch(1, insert(0, 1, "x"), insert(1, 2, "x")))
    publishing = "set-snapshot-ref" if limits else ""
    place.front.lose_answer(path=f"rest_tests/tables/{table.name}$")
    at = 2
    for fault in (lambda: None, lambda: place.front.forward_and_answer(504), lambda: place.front.answer(500)):
        fault()
        batch = place.batch(at, update(at, (1, "x"), (1, f"{at}{publishing}")))
        for _ in range(3):
            try:
                target.apply(table, batch)
                break
            except TargetError:
                continue
        assert place.read(table) == [(1, f"{at}{publishing}"), (2, "x")]
        assert target.position(table) == Position(at, -1, 1, "L1")
        at += 1


def test_a_catalog_that_is_away_is_told_and_waited_for(place: Place, rest_catalog: EmbeddedRestCatalog) -> None:
    target, table = place.target(), place.table("away")
    with place.front.refusing(), pytest.raises(TargetError, match="The catalog or the store does not answer"):
        target.apply(table, place.batch(0, insert(0, 1, "x")))
    target.apply(table, place.batch(0, insert(0, 1, "x")))
    rest_catalog.stop(signal.SIGKILL)
    with pytest.raises(TargetError):
        target.apply(table, place.batch(1, insert(1, 2, "y")))
    rest_catalog.start()
    target.apply(table, place.batch(1, insert(1, 2, "y")))
    assert place.read(table) == [(1, "x"), (2, "y")]


def test_a_stale_evolution_is_refused_although_the_catalog_compares_branches_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, stale, table = place.target(), place.target(), place.table("stale")
    reorder = schema_update.reorder

    def slow(*args: Any) -> None:
        monkeypatch.undo()
        target.apply(table, Evolve(WIDEST, 3))
        target.apply(table, Merge([segment(place.storage, WIDEST, [insert(0, 1, "x", 2, 3)])], WIDEST, 0))
        reorder(*args)

    monkeypatch.setattr(schema_update, "reorder", slow)
    with pytest.raises(TargetConflict):
        stale.apply(table, Evolve(WIDER, 2))
    assert target.position(table) == Position(0, -1, 3, "L1")
    target.apply(table, Merge([segment(place.storage, WIDEST, [delete(1, 1, "x", 2, 3)])], WIDEST, 1))
    assert place.read(table) == []


def test_position_deletes_are_refused_once_the_table_is_of_version_3(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upgrade moves no branch, which is what the catalog compares."""
    table, publish = place.table("upgraded"), commit.publish
    place.target().apply(table, place.batch(2, insert(0, 1, "x"), insert(1, 2, "x"), insert(2, 3, "x")))

    def late(*args: Any) -> None:
        monkeypatch.undo()
        place.target(layout=Layout(version=3)).maintain(table)
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)
    stale, batch = place.target(), place.batch(4, update(3, (1, "x"), (1, "y")), delete(4, 2, "x"))
    with pytest.raises(TargetError):
        stale.apply(table, batch)
    assert place.read(table) == [(1, "x"), (2, "x"), (3, "x")]
    assert stale.apply(table, batch).how == "merge (direct)"
    assert place.read(table) == [(1, "y"), (3, "x")]
    formats = {one.file_format.value for one in deletes(place, table)}
    assert formats == {"PUFFIN"}


def test_a_table_that_is_dropped_before_a_merge_is_published_is_a_conflict(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, publish = place.table("dropped_meanwhile"), commit.publish

    def late(*args: Any) -> None:
        place.target().apply(table, Drop())
        publish(*args)

    monkeypatch.setattr(commit, "publish", late)
    with pytest.raises(TargetConflict):
        place.target().apply(table, place.batch(0, insert(0, 1, "x")))


def deletes(place: Place, table: TargetTable) -> list[Any]:
    """Files of deletes that live."""
    reader = RestCatalog("reader", uri=place.front.uri, credential=f"tidemark:{SECRET}",
        **{"oauth2-server-uri": f"{place.front.uri}/v1/oauth/tokens"})  # fmt: skip
    tasks = reader.load_table((table.namespace, table.name)).scan().plan_files()
    return [one for task in tasks for one in task.delete_files]


def test_a_dropped_table_waits_in_a_namespace_and_goes_with_its_files(place: Place) -> None:
    target, table = place.target(), place.table("dropped")
    target.apply(table, place.batch(0, insert(0, 1, "x")))
    reader = RestCatalog("reader", uri=place.front.uri, credential=f"tidemark:{SECRET}",
        **{"oauth2-server-uri": f"{place.front.uri}/v1/oauth/tokens"})  # fmt: skip
    folder = Path(reader.load_table((table.namespace, table.name)).location().removeprefix("file://"))
    again = place.table("dropped")
    target.apply(table, Drop())
    opening = Opening(place.spark, OWN, place.storage, "", place.settings, "")
    assert clean(opening, time.time()) == 0
    assert list(folder.rglob("*.parquet"))
    assert clean(opening, time.time() + 2 * 24 * 3600) >= 2
    assert not folder.exists()
    assert target.position(again) is None


def test_keys_that_the_catalog_vends_are_used_for_its_tables(s3_server: EmbeddedS3, tmp_path: Path) -> None:
    """The process has no others; those that end soon are asked for again."""
    reach = {"s3.endpoint": s3_server.environment["AWS_ENDPOINT_URL"], "s3.path-style-access": "true"}
    reach["client.region"] = "us-east-1"
    keys = {"s3.access-key-id": s3_server.user, "s3.secret-access-key": s3_server.secret}
    server = EmbeddedRestCatalog(
        HOME / "rest-s3",
        warehouse=f"{s3_server.url}/vended",
        properties={"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **reach, **keys},
    )
    server.start()
    try:
        vending = RestFront(server.uri, vended={**reach, **keys})
        vending.start()
        vending.vends_unasked = False
        settings = {"catalog": "rest", "uri": vending.uri, "auth": "none", "credentials": "vended"}

        def read(table: TargetTable) -> list[Row]:
            catalog = RestCatalog("reader", uri=vending.uri)
            found = catalog.load_table((table.namespace, table.name)).scan().to_arrow()
            return sorted(tuple(row[name] for name in KEYED.names) for row in found.to_pylist())

        place = Place(vending, settings, Storage(f"file://{tmp_path}/staging"), read)
        target, table = place.target(), place.table("vended")
        target.apply(table, place.batch(0, insert(0, 1, "x")))
        assert target.apply(table, place.batch(1, update(1, (1, "x"), (1, "y")))).how == "merge (direct)"
        assert place.target(limits=SPARK_ONLY).apply(table, place.batch(2, insert(2, 2, "z"))).how.startswith("append")
        assert place.read(table) == [(1, "y"), (2, "z")]
        loads = vending.counts["GET table"]
        vending.vended["s3.session-token-expires-at-ms"] = str(int((time.time() + 10) * 1000))
        fresh = place.target()
        for at in (3, 4):
            fresh.apply(table, place.batch(at, insert(at, at, "w")))
        assert vending.counts["GET table"] >= loads + 2
        vending.vended.clear()
        with pytest.raises(TargetError) as raised:
            place.target().apply(table, place.batch(5, insert(5, 5, "w")))
        assert s3_server.secret not in json.dumps([raised.value.message, raised.value.remedy, raised.value.stack])
        assert [line.status for line in check(settings)][-1] is CheckStatus.FAILED
        vending.stop()
    finally:
        server.stop()


def test_requests_are_signed_as_amazon_wants_it(
    front: Callable[..., RestFront], rest_catalog: EmbeddedRestCatalog, tmp_path: Path
) -> None:
    """The front computes each signature itself."""
    signed = front(sigv4=SigV4("AKIDTEST", SECRET, service="s3tables"))
    settings = {
        "catalog": "rest", "uri": signed.uri, "auth": "sigv4", "signing_name": "s3tables", "region": "us-east-1",
        "credentials": "keys", "access_key_id": "AKIDTEST", "secret_access_key": SECRET,
    }  # fmt: skip

    def read(table: TargetTable) -> list[Row]:
        found = RestCatalog("reader", uri=rest_catalog.uri).load_table((table.namespace, table.name)).scan().to_arrow()
        return sorted(tuple(row[name] for name in KEYED.names) for row in found.to_pylist())

    place = Place(signed, settings, Storage(f"file://{tmp_path}/staging"), read)
    target, table = place.target(), place.table("signed")
    target.apply(table, place.batch(0, insert(0, 1, "x")))
    place.target(limits=SPARK_ONLY).apply(table, place.batch(1, update(1, (1, "x"), (1, "y"))))
    assert place.read(table) == [(1, "y")]
    assert [line.status for line in check(settings)] == [CheckStatus.OK] * 5
    [*_, last] = check({**settings, "secret_access_key": "wrong"})
    assert last.status is CheckStatus.FAILED


def test_the_test_of_a_destination_says_what_is_wrong(place: Place) -> None:
    found = check(place.settings)
    assert [line.status for line in found] == [CheckStatus.OK] * 5, found
    reader = RestCatalog("reader", uri=place.front.uri, credential=f"tidemark:{SECRET}",
        **{"oauth2-server-uri": f"{place.front.uri}/v1/oauth/tokens"})  # fmt: skip
    assert not [name for (name, *_) in reader.list_namespaces() if name.startswith("tidemark_test")]
    for changed, said in (
        ({"client_secret": "wrong"}, "refuses the credentials"),
        ({"uri": place.front.uri.replace("127.0.0.1", "127.0.0.2")}, "does not answer"),
        ({"client_id": ""}, "Client ID is missing"),
        ({"uri": "file:///etc/passwd"}, "must be a URL"),
        ({"uri": "http://169.254.169.254/latest"}, "link-local"),
    ):
        [*_, last] = check({**place.settings, **changed})
        assert last.status is CheckStatus.FAILED, changed
        assert said in last.detail, last
        assert SECRET not in f"{last.detail}{last.remedy}"
    place.front.answer(403, path="namespaces$")
    [*_, last] = check(place.settings)
    assert "does not allow it" in last.detail
    assert "privilege" in str(last.remedy)
