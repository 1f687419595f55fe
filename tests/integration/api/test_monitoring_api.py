"""Failures, logs, timeline and metrics through the API."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from replicator.state.journal import Applied
from webapp.alerts.evaluation import evaluate
from webapp.monitoring.models import Failure, LogLine, Standing
from webapp.monitoring.slo.lag_histograms import Lags, add
from webapp.replicators.models import Desired, Replicator, ReplicatorTable, Status
from webapp.worker.store.applied_segments import AppliedBatch, Marked
from webapp.worker.store.counters import count_applied


@pytest.fixture
def url(replicator: Replicator) -> str:
    return f"/api/v1/replicators/{replicator.pk}/"


@pytest.fixture
def lines(replicator: Replicator) -> list[LogLine]:
    return [
        LogLine.objects.create(
            replicator=replicator,
            level=level,
            stage="capture",
            table="shop.orders" if i % 2 else "",
            message=f"line {i}",
        )
        for i, level in enumerate(["debug", "info", "warning", "error", "info"])
    ]


def messages(response: dict[str, list[dict[str, str]]]) -> list[str]:
    return [line["message"] for line in response["lines"]]


def test_the_log_is_filtered(client: APIClient, url: str, lines: list[LogLine]) -> None:
    found = client.get(f"{url}logs/", {"level": "warning"}).json()
    assert messages(found) == ["line 2", "line 3"]
    assert messages(client.get(f"{url}logs/", {"table": "shop.orders"}).json()) == ["line 1", "line 3"]
    assert messages(client.get(f"{url}logs/", {"text": "4"}).json()) == ["line 4"]
    assert client.get(f"{url}logs/", {"level": "loud"}).json()["fields"].keys() == {"level"}


def test_the_log_is_followed_by_its_cursor(client: APIClient, url: str, lines: list[LogLine]) -> None:
    first = client.get(f"{url}logs/", {"after": lines[0].pk, "limit": 2}).json()
    assert messages(first) == ["line 1", "line 2"]
    rest = client.get(f"{url}logs/", {"after": first["next_after"]}).json()
    assert messages(rest) == ["line 3", "line 4"]
    assert client.get(f"{url}logs/", {"after": rest["next_after"]}).json() == {
        "lines": [], "next_after": rest["next_after"]
    }  # fmt: skip
    assert messages(client.get(f"{url}logs/", {"before": lines[2].pk}).json()) == ["line 0", "line 1"]


def test_the_log_is_downloaded_as_text(client: APIClient, url: str, lines: list[LogLine]) -> None:
    response = client.get(f"{url}logs/download/", {"level": "info"})
    text = b"".join(response.streaming_content).decode()
    assert [line.split(" ", 3)[1] for line in text.splitlines()] == ["INFO", "WARNING", "ERROR", "INFO"]
    assert "attachment" in response["Content-Disposition"]
    objects = client.get(f"{url}logs/download/", {"form": "jsonl", "table": "shop.orders", "stage": "capture"})
    found = [json.loads(line) for line in b"".join(objects.streaming_content).splitlines()]
    assert [(line["level"], line["message"]) for line in found] == [("info", "line 1"), ("error", "line 3")]
    assert client.get(f"{url}logs/", {"stage": "apply"}).json()["lines"] == []


def test_failures_are_listed_and_counted(client: APIClient, url: str, replicator: Replicator) -> None:
    table = ReplicatorTable.objects.filter(replicator=replicator).first()
    for attempt in (1, 2, 3):
        Failure.objects.create(
            replicator=replicator, table=table, stage="apply", code="target", message="m", attempt=attempt
        )
    Failure.objects.create(
        replicator=replicator,
        stage="capture",
        code="source_unreachable",
        message="m",
        resolved_at=timezone.now(),
    )
    assert client.get(f"{url}failures/").json()["count"] == 4
    opened = client.get(f"{url}failures/", {"open": "true"}).json()["results"]
    assert [(f["attempt"], f["table"]) for f in opened] == [(n, "shop.customers") for n in (3, 2, 1)]
    assert client.get(f"{url}failures/", {"code": "source_unreachable"}).json()["count"] == 1
    counts = client.get(f"{url}failures/counts/").json()["results"]
    assert [(c["table"], c["code"], c["attempts"], c["open"]) for c in counts] == [
        ("shop.customers", "target", 3, 3), ("", "source_unreachable", 1, 0)
    ]  # fmt: skip


def test_failures_of_the_fleet_are_listed_and_counted(client: APIClient, url: str, replicator: Replicator) -> None:
    table = ReplicatorTable.objects.filter(replicator=replicator)[0]
    old = Failure.objects.create(replicator=replicator, table=table, stage="apply", code="target", message="m")
    Failure.objects.filter(pk=old.pk).update(at=timezone.now() - timedelta(hours=30), resolved_at=timezone.now())
    place = {"offset_after": "log:7", "offset_until": "log:9"}
    Failure.objects.create(replicator=replicator, stage="capture", code="log_corrupt", message="m", **place)
    fleet = "/api/v1/failures/"
    assert client.get(fleet).json()["count"] == 2
    [new] = client.get(fleet, {"since": "24h"}).json()["results"]
    assert (new["replicator"], new["table"], new["offset_after"], new["offset_until"]) == (
        replicator.pk, "", "log:7", "log:9"
    )  # fmt: skip
    assert [f["id"] for f in client.get(fleet, {"table": table.pk, "state": "over"}).json()["results"]] == [old.pk]
    assert client.get(fleet, {"stage": "snapshot"}).json()["count"] == 0
    [counted] = client.get(f"{fleet}counts/", {"since": "24h"}).json()["results"]
    assert (counted["code"], counted["table_id"], counted["open"]) == ("log_corrupt", None, 1)
    assert len(client.get(f"{url}failures/counts/").json()["results"]) == 2


def test_a_table_is_skipped_and_resumed(client: APIClient, url: str, replicator: Replicator) -> None:
    table = ReplicatorTable.objects.filter(replicator=replicator)[0]
    assert client.post(f"{url}tables/{table.pk}/skip/").json()["state"] == "skipped"
    assert client.post(f"{url}tables/{table.pk}/resume/").json()["state"] == "loading"
    assert client.post(f"{url}tables/{table.pk}/resume/").status_code == 400
    events = client.get(f"{url}timeline/", {"group": "tables"}).json()["results"]
    assert [(event["kind"], event["user"]) for event in events] == [("table_skipped", "ada")]


def test_the_timeline_says_who_did_what(client: APIClient, url: str) -> None:
    client.post(f"{url}start/")
    events = client.get(f"{url}timeline/").json()["results"]
    assert events
    assert events[0]["user"] == "ada"
    by_people = client.get(f"{url}timeline/", {"by": "people", "group": "runs"}).json()["results"]
    assert [event["kind"] for event in by_people] == ["started", "created"]
    assert client.get(f"{url}timeline/", {"by": "itself"}).json()["count"] == 0


def test_metrics_are_added_up_by_minute(client: APIClient, url: str, replicator: Replicator) -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    tables = list(ReplicatorTable.objects.filter(replicator=replicator))
    for table in tables:
        applied(table, now, 5)
        lags = Lags()
        lags.histogram.add_one(timedelta(milliseconds=100 * table.pk), 5)
        add(table, {now: lags})
    applied(tables[0], now - timedelta(hours=3), 1)
    [minute] = client.get(f"{url}metrics/").json()
    assert (minute["inserts"], minute["events"]) == (5 * len(tables), 5 * len(tables))
    assert minute["lag_max_ms"] == max(100 * table.pk for table in tables)
    assert len(client.get(f"{url}metrics/", {"minutes": 600}).json()) == 2
    [own] = client.get(f"{url}metrics/", {"table": tables[0].pk}).json()
    assert (own["inserts"], own["lag_p50_ms"], own["lag_p99_ms"]) == (5, 100 * tables[0].pk, 100 * tables[0].pk)
    assert client.get(f"{url}metrics/", {"minutes": 0}).status_code == 400


def applied(table: ReplicatorTable, at: datetime, inserts: int) -> None:
    """As a merge is counted."""
    marked = Marked("log", "", inserts, inserts, 0, 0, 0, None, None, 100 * inserts)
    count_applied(table, AppliedBatch.of([marked]), Applied(table.table_id, 1, -1, 0.5, "merge", at))


def test_charts_are_points_of_a_range_of_all_tables_or_of_one(
    client: APIClient, url: str, replicator: Replicator, django_assert_max_num_queries: Any
) -> None:
    now = timezone.now()
    Replicator.objects.update(created_at=now - timedelta(days=40))
    first, second = ReplicatorTable.objects.filter(replicator=replicator)
    for table, hours, number in ((first, 1, 7), (second, 1, 5), (first, 50, 3)):
        applied(table, now - timedelta(hours=hours), number)
    with django_assert_max_num_queries(9):
        month = client.get(f"{url}charts/", {"range": "30d"}).json()
    assert (month["seconds"], 240 <= len(month["points"]) <= 241) == (10_800, True)
    assert [p["inserts"] for p in month["points"] if p["merges"]] == [3, 12]
    own = client.get(f"{url}charts/", {"from": (now - timedelta(hours=2)).isoformat(), "table": first.pk}).json()
    assert [(p["inserts"], p["bytes"], p["merge_longest"]) for p in own["points"] if p["merges"]] == [(7, 700, 0.5)]
    assert own["points"][0]["lag_p99_ms"] is None
    assert client.get(f"{url}charts/").json()["seconds"] == 60
    refused = client.get(f"{url}charts/", {"range": "2h"})
    assert (refused.status_code, refused.json()["code"]) == (400, "configuration")
    assert client.get(f"{url}charts/", {"table": 0}).status_code == 404


def test_the_objective_and_those_of_tables(client: APIClient, url: str, replicator: Replicator) -> None:
    first, second = ReplicatorTable.objects.filter(replicator=replicator)
    for table, seconds, number in ((first, 2, 90), (first, 400, 10), (second, 400, 100)):
        lags = Lags()
        lags.histogram.add_one(timedelta(seconds=seconds), number)
        add(table, {timezone.now(): lags})
    slo = client.get(f"{url}slo/").json()
    assert slo["objective"] == {"percent": 99.0, "seconds": 300.0}
    assert slo["windows"]["30d"] == {"good": 90, "total": 200, "percent": 45.0}
    assert (slo["state"], slo["watched"], slo["tables"]) == ("unwatched", False, {})
    own = f"{url}slo/tables/{second.pk}/"
    refused = client.put(own, {"percent": 90, "seconds": 401}, format="json")
    assert (refused.status_code, "Choose 400 or 405 seconds" in refused.json()["remedy"]) == (400, True)
    assert client.put(own, {"percent": 90, "seconds": 400}, format="json").status_code == 204
    slo = client.get(f"{url}slo/").json()
    assert slo["windows"]["24h"]["good"] == 190
    assert slo["tables"][str(second)]["windows"]["24h"] == {"good": 100, "total": 100, "percent": 100.0}
    assert [one["name"] for one in client.get(f"{url}slo/tables/").json()] == [str(second)]
    tables = {line["id"]: line["slo"] for line in client.get(f"{url}tables/").json()["results"]}
    objective = {"percent": 99.0, "seconds": 300.0}
    assert tables[first.pk] == {
        "objective": objective, "promise": objective, "own": False, "good": 90, "total": 100, "percent": 90.0
    }  # fmt: skip
    assert client.get(f"{url}tables/{second.pk}/").json()["slo"]["own"] is True
    assert client.delete(own).status_code == 204
    assert client.get(f"{url}slo/").json()["windows"]["24h"]["good"] == 90


def test_the_fleet_tells_of_objectives_as_its_page_does(client: APIClient, url: str, replicator: Replicator) -> None:
    """As last looked at: nothing before the first look, and a word for one that is old."""
    fleet = url.removesuffix(f"{replicator.pk}/")
    assert client.get(fleet).json()["results"][0]["slo"] is None
    table = ReplicatorTable.objects.filter(replicator=replicator)[0]
    lags = Lags()
    lags.histogram.add_one(timedelta(seconds=2), 10)
    add(table, {timezone.now(): lags})
    Replicator.objects.update(desired=Desired.RUNNING, status=Status.RUNNING, source_ts=timezone.now())
    evaluate()
    [line] = client.get(fleet).json()["results"]
    assert (line["slo"]["state"], line["alerts_firing"]) == ("kept", 0)
    assert line["slo"]["windows"]["24h"] == {"good": 10, "total": 10, "percent": 100.0}
    assert (line["slo"]["budget_left_percent"], line["slo"]["objective"]["seconds"]) == (100.0, 300.0)
    assert client.get(url).json()["slo"] == line["slo"]
    Standing.objects.update(figures=line["slo"] | {"at": (timezone.now() - timedelta(minutes=10)).isoformat()})
    assert client.get(url).json()["slo"]["state"] == "unseen"
