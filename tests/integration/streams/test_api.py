"""What the API of streams answers, and what it refuses with a sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.integration.streams.journal import Journal
from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import (
    ChunkRow,
    ChunkState,
    ReplicatorTable,
    RunState,
    SegmentRow,
    SnapshotRun,
    TableEventRow,
)
from webapp.streams import services
from webapp.streams.models import Stream
from webapp.worker.upkeep import garbage_collection

pytestmark = [pytest.mark.django_db, pytest.mark.integration]
BASE = "/api/v1/streams/"


@pytest.fixture
def journal(staging: None, db: None) -> Journal:
    return Journal("orders", "items")


@pytest.fixture
def stream(journal: Journal) -> Stream:
    return services.create_stream(name="all", replicator=journal.replicator, shards=2)


def read(api: APIClient, shard: int = 0, name: str = "all", **asked: Any) -> dict[str, Any]:
    answer = api.get(f"{BASE}{name}/changes/", {"shard": shard, **asked})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def ids(told: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["table"], one["after"]["id"]) for one in told["changes"] if "key" in one]


def test_a_stream_is_made_listed_changed_and_deleted(api: APIClient, journal: Journal) -> None:
    body = {"name": "orders-only", "replicator": journal.replicator.pk, "shards": 3, "retention_hours": 48}
    made = api.post(BASE, {**body, "tables": [{"database": "shop", "table": "orders"}]}, format="json")
    assert made.status_code == 201
    assert made.json()["tables"] == [{"database": "shop", "table": "orders"}]
    assert [one["name"] for one in api.get(BASE).json()["results"]] == ["orders-only"]
    where = f"{BASE}orders-only/"
    changed = api.patch(
        where, {"tables": None, "exclude": [{"database": "shop", "table": "items"}]}, format="json"
    ).json()
    assert (changed["tables"], changed["exclude"]) == (None, [{"database": "shop", "table": "items"}])
    assert api.patch(where, {"retention_hours": 2}, format="json").json()["retention_hours"] == 2
    assert api.get(f"{where}shards/").json()[2]["shard"] == 2
    assert not api.post(f"{where}disable/").json()["enabled"]
    assert api.post(f"{where}enable/").json()["enabled"]
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404
    kinds = TimelineEvent.objects.order_by("id").values_list("kind", flat=True)
    assert list(kinds) == [
        "stream_created", "stream_changed", "stream_changed", "stream_disabled", "stream_enabled", "stream_deleted",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"name": "Ä"}, "lowercase letters"),
        ({"name": "all"}, "already"),
        ({"replicator": 999_999}, "Unknown replicator"),
        ({"shards": 0}, "1 to 64 shards"),
        ({"shards": 65}, "1 to 64 shards"),
        ({"retention_hours": 0.5}, "1 to 744 hours"),
        ({"retention_hours": "nan"}, "valid number"),
        ({"tables": [{"database": "shop", "table": "nothing"}]}, "no table shop.nothing"),
        ({"tables": []}, "at least one table"),
        ({"tables": ["orders"]}, "tables"),
        ({"exclude": [{"database": "shop", "table": "nothing"}]}, "no table shop.nothing"),
    ],
)
def test_what_cannot_be_a_stream_is_refused(
    api: APIClient, journal: Journal, stream: Stream, body: dict[str, Any], sentence: str
) -> None:
    answer = api.post(BASE, {"name": "new", "replicator": journal.replicator.pk, **body}, format="json")
    assert answer.status_code == 400
    assert sentence in answer.json()["message"]
    assert answer.json()["remedy"]
    assert Stream.objects.count() == 1


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ({}, 400, "shard must be a number"),
        ({"shard": "two"}, 400, "shard must be a number"),
        ({"shard": 2}, 400, "shards 0 to 1"),
        ({"shard": 0, "max_rows": 0}, 400, "max_rows must be a number from 1"),
        ({"shard": 0, "max_rows": "²"}, 400, "max_rows must be a number from 1"),
        ({"shard": 0, "max_bytes": 10**12}, 400, "max_bytes must be a number from 1"),
        ({"shard": 0, "wait": "long"}, 400, "wait must be a number"),
        ({"shard": 0, "wait": "nan"}, 400, "wait must be a number"),
        ({"shard": 0, "from": "yesterday"}, 400, "Not a checkpoint of a stream"),
        ({"shard": 0, "from": "000000000000-0-5-0"}, 400, "another stream"),
        ({"shard": 0, "group": "g", "member": "nobody"}, 409, "no member nobody"),
    ],
)
@pytest.mark.parametrize("form", ["application/json", "application/vnd.apache.arrow.stream"])
def test_what_cannot_be_read_is_refused_with_a_sentence(
    api: APIClient, stream: Stream, asked: dict[str, Any], status: int, sentence: str, form: str
) -> None:
    answer = api.get(f"{BASE}all/changes/", asked, headers={"accept": form})
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/json")
    assert sentence in answer.json()["message"]
    assert answer.json()["remedy"]


def test_other_shards_and_future_checkpoints_are_refused(api: APIClient, journal: Journal, stream: Stream) -> None:
    journal.log("orders", 1)
    other = read(api, shard=1)["checkpoint"]
    for wrong, sentence in ((other, "another stream or shard"), (f"{stream.uid}-0-99-0", "ahead")):
        assert sentence in api.get(f"{BASE}all/changes/", {"shard": 0, "from": wrong}).json()["message"]
        body = {"group": "g", "shard": 0, "checkpoint": wrong}
        assert sentence in api.post(f"{BASE}all/ack/", body, format="json").json()["message"]
    body = {"group": "g", "shard": 7, "checkpoint": other}
    assert "shards 0 to 1" in api.post(f"{BASE}all/ack/", body, format="json").json()["message"]


def test_without_a_token_there_is_nothing(stream: Stream) -> None:
    for path in (BASE, f"{BASE}all/", f"{BASE}all/changes/?shard=0", f"{BASE}all/groups/"):
        assert APIClient().get(path).status_code == 401


def test_a_group_goes_on_where_it_has_acked_and_nowhere_else(api: APIClient, journal: Journal, stream: Stream) -> None:
    journal.log("orders", *range(20))
    first = read(api, group="g", max_rows=3)
    assert read(api, group="g", max_rows=3) == first
    body = {"group": "g", "shard": 0, "checkpoint": first["checkpoint"]}
    assert api.post(f"{BASE}all/ack/", body, format="json").json()["checkpoint"] == first["checkpoint"]
    rest = read(api, group="g")
    assert rest["start"] == first["checkpoint"]
    both = ids(first) + ids(rest) + ids(read(api, shard=1, group="g"))
    assert sorted(both) == [("orders", n) for n in range(20)]
    older = {**body, "checkpoint": first["start"]}
    assert api.post(f"{BASE}all/ack/", older, format="json").json()["checkpoint"] == first["checkpoint"]
    assert ids(read(api, group="other")) == ids(first) + ids(rest)
    assert ids(read(api, group="g", **{"from": "oldest"})) == ids(first) + ids(rest)
    assert ids(read(api, group="g", **{"from": "latest"})) == []
    told = api.get(f"{BASE}all/groups/").json()
    assert [(one["name"], one["behind"]) for one in told] == [("g", 20)]


def test_arrow_has_the_same_rows(api: APIClient, journal: Journal, stream: Stream) -> None:
    journal.log("orders", *range(9))
    journal.log("items", *range(5), operation="DELETE")
    answer = api.get(f"{BASE}all/changes/", {"shard": 0}, headers={"accept": "application/vnd.apache.arrow.stream"})
    assert answer["Content-Type"] == "application/vnd.apache.arrow.stream"
    source, found = pa.BufferReader(answer.content), []
    while source.tell() < len(answer.content):
        with pa.ipc.open_stream(source) as one:
            found += one.read_all().column("_sequence_num").to_pylist()
    told = read(api)
    assert found == [one["sequence"] for one in told["changes"]]
    assert answer["Tidemark-Checkpoint"] == told["checkpoint"]
    assert answer["Tidemark-More"] == "false"


def test_a_disabled_stream_gives_nothing(api: APIClient, journal: Journal, stream: Stream) -> None:
    journal.log("orders", 1)
    services.set_enabled(stream=stream, enabled=False)
    answer = api.get(f"{BASE}all/changes/", {"shard": 0})
    assert (answer.status_code, answer.json()["code"]) == (409, "stream_disabled")


def test_tables_come_and_go(api: APIClient, journal: Journal) -> None:
    stream = services.create_stream(
        name="all", replicator=journal.replicator, tables=[journal.tables["orders"].table_id]
    )
    journal.log("orders", 1)
    journal.log("items", 1)
    both = [table.table_id for table in journal.tables.values()]
    services.change_tables(stream=stream, tables=both)
    journal.log("items", 2)
    journal.add("later")
    journal.log("later", 9)
    assert ids(read(api)) == [("orders", 1), ("items", 2)]
    services.change_tables(stream=stream, tables=None, exclude=[both[0]])
    assert ids(read(api)) == [("items", 2)]  # `later` was not in it before
    journal.log("later", 10)
    assert ids(read(api)) == [("items", 2), ("later", 10)]
    journal.add("last")
    journal.log("last", 11)
    assert ids(read(api)) == [("items", 2), ("later", 10), ("last", 11)]


def test_segments_are_kept_for_an_enabled_stream_and_what_is_gone_is_told(
    api: APIClient, journal: Journal, stream: Stream
) -> None:
    rows = [journal.log("orders", *range(place * 10, place * 10 + 10)) for place in range(3)]
    begin = read(api, max_rows=1)["start"]
    journal.aged(rows[0], created=25, applied=20)
    journal.aged(rows[1], created=23, applied=20)
    garbage_collection.collect()
    assert list(SegmentRow.objects.order_by("id")) == rows[1:]  # 24 hours
    answer = api.get(f"{BASE}all/changes/", {"shard": 0, "from": begin})
    told = answer.json()
    assert (answer.status_code, told["code"]) == (410, "checkpoint_too_old")
    assert "24 h" in told["message"]
    assert told["remedy"]
    rest = [one for shard in (0, 1) for one in ids(read(api, shard=shard, **{"from": "oldest"}))]
    assert sorted(rest) == [("orders", n) for n in range(10, 30)]
    assert ids(read(api, **{"from": told["oldest"]})) == ids(read(api))
    services.set_enabled(stream=stream, enabled=False)
    garbage_collection.collect()
    assert list(SegmentRow.objects.order_by("id")) == rows[2:]
    services.set_enabled(stream=stream, enabled=True)
    assert api.get(f"{BASE}all/changes/", {"shard": 0, "from": told["oldest"]}).status_code == 410


def test_what_is_deleted_of_other_tables_makes_no_checkpoint_too_old(api: APIClient, journal: Journal) -> None:
    names = [journal.tables["orders"].table_id]
    services.create_stream(name="all", replicator=journal.replicator, tables=names)
    kept, other = journal.log("orders", 1), journal.log("items", 1)
    for row in (kept, other):
        journal.aged(row, created=10, applied=10)
    begin = read(api, max_rows=1)["start"]
    garbage_collection.collect()
    assert list(SegmentRow.objects.all()) == [kept]
    assert ids(read(api, **{"from": begin})) == [("orders", 1)]


def test_events_are_kept_and_lost_as_segments_are(api: APIClient, journal: Journal, stream: Stream) -> None:
    table = journal.tables["orders"]
    event = TableEventRow.objects.create(
        replicator=journal.replicator, table=table, database="shop", name="orders", sequence=0, kind="TRUNCATE_TABLE"
    )
    journal.advance(1)
    for hours, status in ((20, 200), (30, 410)):
        row = journal.log("items", hours)
        journal.aged(row, created=hours, applied=hours)
        made = SegmentRow.objects.get(pk=row.pk)
        TableEventRow.objects.filter(pk=event.pk).update(created_at=made.created_at, applied_at=made.applied_at)
        garbage_collection.collect()
        answer = api.get(f"{BASE}all/changes/", {"shard": 1, "from": f"{stream.uid}-1-0-0"})
        assert answer.status_code == status
        if status == 200:
            assert answer.json()["changes"][0]["operation"] == "TRUNCATE_TABLE"


def test_a_load_is_told_and_a_table_without_key_waits_for_its_snapshot(api: APIClient, staging: None, db: None) -> None:
    journal = Journal("orders", keyless=("log",))
    stream = services.create_stream(name="all", replicator=journal.replicator, shards=2)
    table = journal.tables["log"]
    ReplicatorTable.objects.filter(pk=table.pk).update(state="loading")
    run = SnapshotRun.objects.create(table=table, fresh=True, start_sequence=0, state=RunState.READING)
    journal.log("orders", 1)
    log = journal.log("log", 10, 11, 12)
    journal.log("orders", 2)
    told = read(api)
    assert (told["more"], [one["operation"] for one in told["changes"] if one["table"] == "log"]) == (True, ["LOAD"])
    assert told["checkpoint"].split("-")[2] == str(log.first_sequence)
    whole = read(api, shard=1)  # does not wait
    chunk = journal.chunk("log", 10, 11)
    ChunkRow.objects.create(
        run=run, number=0, keyless=True, state=ChunkState.DONE, base_sequence=log.first_sequence + 1
    )
    SnapshotRun.objects.filter(pk=run.pk).update(state=RunState.DONE)
    ReplicatorTable.objects.filter(pk=table.pk).update(state="streaming")
    rest = read(api, **{"from": told["checkpoint"]})
    expected = [("READ", 10), ("READ", 11), ("INSERT", 12)]
    assert [(one["operation"], one["after"]["id"]) for one in rest["changes"] if one["table"] == "log"] == expected
    orders = ids(told) + ids(whole) + ids(rest) + ids(read(api, shard=1, **{"from": whole["checkpoint"]}))
    assert sorted(one for one in orders if one[0] == "orders") == [("orders", 1), ("orders", 2)]
    one_by_one, begin, more = [], told["checkpoint"], True
    while more:
        batch = read(api, max_rows=1, **{"from": begin})
        one_by_one += [one["position"] for one in batch["changes"]]
        begin, more = batch["checkpoint"], batch["more"]
    assert one_by_one == sorted(one["position"] for one in rest["changes"])
    SegmentRow.objects.filter(pk=log.pk).delete()  # the place stays where it was
    again = read(api, **{"from": told["checkpoint"]})
    assert [one["position"] for one in again["changes"]] == [
        one["position"] for one in rest["changes"] if one["operation"] == "READ" or one["table"] == "orders"
    ]
    assert chunk.first_sequence > log.last_sequence
    assert stream.shards == 2


def test_a_table_has_the_name_that_it_had_then(api: APIClient, journal: Journal) -> None:
    services.create_stream(name="all", replicator=journal.replicator)
    journal.log("orders", 1)
    table = journal.tables["orders"]
    TableEventRow.objects.create(
        replicator=journal.replicator, table=table, database="shop", name="orders", sequence=journal.next,
        kind="RENAME_TABLE", detail={"new": ["shop", "sold"]},
    )  # fmt: skip
    ReplicatorTable.objects.filter(pk=table.pk).update(name="sold")
    journal.advance(1)
    journal.tables["sold"] = table
    journal.log("sold", 2)
    told = read(api)
    assert ids(told) == [("orders", 1), ("sold", 2)]
    assert told["changes"][1]["new"] == ["shop", "sold"]


def test_the_number_of_queries_does_not_depend_on_that_of_tables(api: APIClient, journal: Journal) -> None:
    services.create_stream(name="all", replicator=journal.replicator)

    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            read(api)
        return len(caught)

    journal.log("orders", 1)
    read(api)
    few = queries()
    for number in range(12):
        journal.add(f"t{number}")
        journal.log(f"t{number}", 1)
    assert queries() == few < 20
