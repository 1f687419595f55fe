"""Failures, logs, timeline and metrics through the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from webapp.monitoring.models import Failure, LogLine, MetricMinute
from webapp.replicators.models import Replicator, ReplicatorTable


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
    assert [line.split(" ", 3)[1] for line in text.splitlines()] == ["info", "warning", "error", "info"]
    assert "attachment" in response["Content-Disposition"]


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


def test_the_timeline_says_who_did_what(client: APIClient, url: str) -> None:
    client.post(f"{url}start/")
    events = client.get(f"{url}timeline/").json()["results"]
    assert events
    assert events[0]["user"] == "ada"


def test_metrics_are_added_up_by_minute(client: APIClient, url: str, replicator: Replicator) -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    tables = list(ReplicatorTable.objects.filter(replicator=replicator))
    for table in tables:
        MetricMinute.objects.create(
            replicator=replicator, table=table, minute=now, inserts=5, events=5, lag_max_ms=100 * table.pk,
            lag_p50_ms=1, lag_p95_ms=2,
        )  # fmt: skip
    MetricMinute.objects.create(replicator=replicator, table=tables[0], minute=now - timedelta(hours=3), inserts=1)
    [minute] = client.get(f"{url}metrics/").json()
    assert (minute["inserts"], minute["lag_max_ms"]) == (10, max(100 * table.pk for table in tables))
    assert len(client.get(f"{url}metrics/", {"minutes": 600}).json()) == 2
    [own] = client.get(f"{url}metrics/", {"table": tables[0].pk}).json()
    assert own["inserts"] == 5
    assert client.get(f"{url}metrics/", {"minutes": 0}).status_code == 400
    slo = client.get(f"{url}slo/").json()
    assert (slo["percent"], slo["events"]) == (100.0, 10)
