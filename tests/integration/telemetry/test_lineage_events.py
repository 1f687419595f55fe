"""OpenLineage events from the journal to a receiver: each once, in order, bounded, and never in the way."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.browser.factories import make_connection, make_history, make_replicator, make_table
from webapp.database import clock
from webapp.monitoring.models import Failure, MetricMinute
from webapp.replicators.models import ReplicatorTable, RunState, SnapshotRun
from webapp.telemetry import delivery
from webapp.telemetry.gathering import gather
from webapp.telemetry.models import LineageEvent, LineageState

pytestmark = [pytest.mark.django_db, pytest.mark.integration]
TOKEN = "lineage-s3cret-token"
MINUTE = timedelta(minutes=1)


class Endpoint:
    """Keeps what it was sent; answers with `status`."""

    def __init__(self) -> None:
        self.status = 201
        self.events: list[dict[str, Any]] = []
        self.tokens: set[str | None] = set()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.tokens.add(self.headers.get("Authorization"))
                if endpoint.status < 300:
                    endpoint.events.append(json.loads(body))
                self.send_response(endpoint.status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.end_headers()
                self.wfile.write(f"echo {self.headers.get('Authorization')}".encode())

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api/v1/lineage"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def said(self) -> list[tuple[str, str]]:
        return [(one["job"]["name"].rsplit(".", 1)[1], one["eventType"]) for one in self.events]


@pytest.fixture
def endpoint(settings: Any) -> Iterator[Endpoint]:
    made = Endpoint()
    settings.TIDEMARK_OPENLINEAGE_URL, settings.TIDEMARK_OPENLINEAGE_TOKEN = made.url, TOKEN
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def table() -> ReplicatorTable:
    row = make_table(make_replicator(make_connection(), "shop"), "orders")
    make_history(row)
    return row


def merged(table: ReplicatorTable, minute: datetime, rows: int) -> None:
    MetricMinute.objects.create(replicator=table.replicator, table=table, minute=minute, inserts=rows, merges=2)


def began(minutes: float) -> LineageState:
    """As if the first round had been so long ago."""
    at = clock() - timedelta(minutes=minutes)
    return LineageState.objects.create(snapshots_to=at, merges_to=at)


def window(back: int) -> datetime:
    """The start of the five-minute window that is `back` windows before the present one."""
    now = clock().timestamp()
    return datetime.fromtimestamp(now // 300 * 300, UTC) - timedelta(minutes=5 * back)


def test_a_snapshot_and_the_merges_of_a_window_arrive_as_runs(table: ReplicatorTable, endpoint: Endpoint) -> None:
    began(20)
    run = SnapshotRun.objects.create(table=table, reason="r", state=RunState.DONE, rows_read=77)
    at = clock() - timedelta(minutes=15)
    SnapshotRun.objects.filter(pk=run.pk).update(started_at=at, finished_at=at + MINUTE)
    merged(table, window(2), 10)
    merged(table, window(2) + MINUTE, 5)
    assert delivery.tell() == 4
    assert endpoint.said == [("snapshot", "START"), ("snapshot", "COMPLETE"), ("merge", "START"), ("merge", "COMPLETE")]
    assert endpoint.tokens == {f"Bearer {TOKEN}"}
    snapshot, merge = endpoint.events[1], endpoint.events[3]
    assert snapshot["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 77
    assert merge["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 15
    assert merge["inputs"][0]["namespace"] == "mysql://db.internal:3306"
    assert merge["inputs"][0]["name"] == "shop.orders"
    assert merge["outputs"][0]["name"] == "prod_shop.orders"
    lineage = merge["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert lineage["coupon"]["inputFields"][0]["field"] == "coupon"
    assert "card_number" not in json.dumps(lineage)


def test_every_event_is_told_once_however_often_it_is_looked_for(table: ReplicatorTable, endpoint: Endpoint) -> None:
    began(20)
    merged(table, window(2), 10)
    assert delivery.tell() == 2
    LineageState.objects.update(merges_to=clock() - timedelta(minutes=20))  # as after a crash in the midst of a round
    assert delivery.tell() == 0
    assert len(endpoint.events) == 2
    assert LineageState.objects.get().delivered == 2


def test_the_number_of_events_follows_windows_and_not_merges(table: ReplicatorTable, endpoint: Endpoint) -> None:
    began(20)
    for minute in range(5):
        merged(table, window(2) + minute * MINUTE, 1)
    merged(table, window(0), 1)  # not over yet
    assert delivery.tell() == 2


def test_a_window_whose_failure_is_not_mended_fails(table: ReplicatorTable, endpoint: Endpoint) -> None:
    began(20)
    failure = Failure.objects.create(
        replicator=table.replicator, table=table, stage="apply", code="target", message="no space at s3://me:pw9@lake"
    )
    Failure.objects.filter(pk=failure.pk).update(at=window(2) + MINUTE)
    merged(table, window(2), 10)
    delivery.tell()
    assert endpoint.said == [("merge", "START"), ("merge", "FAIL")]
    assert endpoint.events[1]["run"]["facets"]["errorMessage"]["message"] == "no space at s3://me:•••@lake"


def test_what_cannot_be_delivered_waits_and_arrives_in_order(
    table: ReplicatorTable, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    began(20)
    merged(table, window(2), 10)
    endpoint.status = 503
    with caplog.at_level(logging.WARNING, "tidemark.telemetry"):
        assert delivery.tell() == 0
    state = LineageState.objects.get()
    assert (state.attempt, LineageEvent.objects.filter(delivered_at=None).count()) == (1, 2)
    assert TOKEN not in state.error + caplog.text  # the endpoint echoed it
    assert "503" in state.error
    endpoint.status = 200
    assert delivery.tell() == 0  # its time has not come
    LineageState.objects.update(retry_at=None)
    assert delivery.tell() == 2
    assert endpoint.said == [("merge", "START"), ("merge", "COMPLETE")]
    assert LineageState.objects.get().attempt == 0


def test_a_redirection_is_not_followed_and_a_refused_event_does_not_hold_up_the_others(
    table: ReplicatorTable, endpoint: Endpoint
) -> None:
    began(20)
    merged(table, window(2), 10)
    endpoint.status = 302
    assert delivery.tell() == 0
    LineageState.objects.update(retry_at=None)
    endpoint.status = 422
    delivery.tell()
    assert LineageState.objects.get().dropped == 2
    assert not LineageEvent.objects.filter(delivered_at=None).exists()


def test_the_queue_is_bounded_and_the_oldest_go_first(
    table: ReplicatorTable, endpoint: Endpoint, settings: Any
) -> None:
    settings.TIDEMARK_OPENLINEAGE_QUEUE = 3
    state = began(40)
    for back in (5, 4, 3):
        merged(table, window(back), back)
    assert gather(state, clock()) == 6
    waiting = LineageEvent.objects.filter(delivered_at=None)
    assert [one.body["eventType"] for one in waiting] == ["COMPLETE", "START", "COMPLETE"]
    assert state.dropped == 3


def test_gathering_costs_the_same_for_many_tables(
    table: ReplicatorTable, endpoint: Endpoint, django_assert_max_num_queries: Any
) -> None:
    state = began(12)
    for number in range(60):
        other = make_table(table.replicator, f"t{number}")
        make_history(other)
        merged(other, window(2), 1)
    with django_assert_max_num_queries(16):
        assert gather(state, clock()) == 120


def test_a_file_gets_one_line_an_event_and_is_rotated(table: ReplicatorTable, settings: Any, tmp_path: Path) -> None:
    settings.TIDEMARK_OPENLINEAGE_FILE = str(tmp_path / "below" / "events.jsonl")
    began(20)
    merged(table, window(2), 10)
    assert delivery.tell() == 2
    lines = (tmp_path / "below" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["eventType"] for line in lines] == ["START", "COMPLETE"]
    file = delivery.EventFile(tmp_path / "small", 25)
    for number in range(9):
        file.append(json.dumps({"number": number}))
    names = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert names == ["small", "small.1", "small.2", "small.3"]
    assert json.loads((tmp_path / "small").read_text())["number"] == 8


def test_without_a_receiver_nothing_is_looked_for(table: ReplicatorTable, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert delivery.tell() == 0


def test_only_one_process_tells_at_a_time(table: ReplicatorTable, endpoint: Endpoint) -> None:
    began(20)
    merged(table, window(2), 10)
    assert delivery.claim_dispatch(delivery.CLAIM, 60)
    assert delivery.tell() == 0
    delivery.dispatch_taken(delivery.CLAIM)
    assert delivery.tell() == 2
