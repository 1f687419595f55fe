"""/metrics, /healthz and /readyz: who gets them, what they say, what they cost; and that the dashboard asks for what is
there.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from replicator.errors import SourceUnreachable
from replicator.state.tables import TableState
from tests.browser.factories import make_connection, make_replicator, make_run, make_table, stage_segments
from webapp.database import clock
from webapp.monitoring.models import Failure, Stage, TableObjective
from webapp.monitoring.slo.attainment import WINDOWS
from webapp.monitoring.slo.lag_histograms import Lags, add
from webapp.monitoring.slo.status import keep_standings
from webapp.replicators.models import ReplicatorTable, Status
from webapp.telemetry import heartbeats
from webapp.telemetry.models import FailureCount
from webapp.worker.failure.failures import stage_failed
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.models import WorkerHeartbeat
from webapp.worker.upkeep import garbage_collection

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
TOKEN = "metrics-s3cret-token"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "monitoring"


@pytest.fixture(autouse=True)
def _no_broker(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.TIDEMARK_METRICS_TOKEN = TOKEN


@pytest.fixture
def table() -> ReplicatorTable:
    return make_table(make_replicator(make_connection(), "shop", log_held_bytes=500, log_held_most=1000), "orders")


def of(name: str, *labels: str) -> tuple[str, ...]:
    """A series, regardless of the order of its labels."""
    return (name, *sorted(labels))


def scraped() -> dict[tuple[str, ...], float]:
    """Series → value."""
    answer = Client().get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    return {
        of(sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def test_only_who_knows_the_token_gets_figures(settings: Any) -> None:
    assert Client().get("/metrics").status_code == 401
    for wrong in ("Bearer ", "Bearer wrong", TOKEN, f"Basic {TOKEN}", "Bearer ünïcode"):
        answer = Client().get("/metrics", headers={"authorization": wrong})
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
        assert TOKEN not in answer.content.decode()
    assert Client().post("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 405
    settings.TIDEMARK_METRICS_TOKEN = ""
    for header in ("Bearer ", f"Bearer {TOKEN}", ""):
        assert Client().get("/metrics", headers={"authorization": header}).status_code == 404


def test_the_figures_are_those_of_the_database(table: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk=table.pk).update(dead_letters=3)
    stage_segments(table, 3)
    ReplicatorTable.objects.filter(pk=table.pk).update(rows_inserted=42, merges=7, merge_seconds=3.5)
    lease = OrmLeaseStore().acquire(f"merge:{table.replicator_id}", "me")
    assert lease is not None
    found = scraped()
    assert found[of("tidemark_rows_total", "shop", "shop.orders", "inserted")] == 42
    assert found[of("tidemark_dead_letter_rows", "shop", "shop.orders")] == 3
    assert found[of("tidemark_merges_total", "shop", "shop.orders")] == 7
    assert found[of("tidemark_merge_seconds_total", "shop", "shop.orders")] == 3.5
    assert found[of("tidemark_backlog_rows", "shop")] == 300_000
    assert found[of("tidemark_table_backlog_bytes", "shop", "shop.orders")] == 54_000_000
    assert found[of("tidemark_source_log_kept_bytes", "shop")] == 500
    assert found[of("tidemark_source_log_kept_limit_bytes", "shop")] == 1000
    assert found[of("tidemark_replicator_status", "shop", "mysql", "running")] == 1
    assert found[of("tidemark_replicator_status", "shop", "mysql", "failed")] == 0
    assert found[of("tidemark_tables", "shop", "streaming")] == 1
    assert 0.5 < found[of("tidemark_table_lag_seconds", "shop", "shop.orders")] < 120
    assert found[of("tidemark_slo_seconds", "shop")] == 300
    assert found[of("tidemark_leases", "merge")] == 1
    assert found[of("tidemark_leases", "capture")] == 0
    assert found[of("tidemark_redis_up")] == 0


def test_what_is_covered_already_is_no_backlog(table: ReplicatorTable) -> None:
    stage_segments(table, 3)
    table.segments.update(applied_at=clock())
    assert scraped()[of("tidemark_backlog_rows", "shop")] == 0


@pytest.mark.parametrize("tables", [3, 150])
def test_a_scrape_costs_the_same_whatever_the_number_of_tables(
    table: ReplicatorTable, django_assert_max_num_queries: Any, tables: int
) -> None:
    for number in range(tables):
        make_table(table.replicator, f"t{number:03}")
    with django_assert_max_num_queries(22):
        scraped()


def test_objectives_are_told_as_they_were_last_looked_at(table: ReplicatorTable) -> None:
    one = table.replicator
    TableObjective.objects.create(table=table, percent=99.9, seconds=1)
    lags = Lags()
    lags.histogram.add_one(timedelta(seconds=2), 10)
    add(table, {clock(): lags})
    assert of("tidemark_slo_burn_rate", "shop", "", "1h") not in scraped()
    keep_standings([one])
    found = scraped()
    assert found[of("tidemark_slo_in_time_percent", "shop", str(table), "24h")] == 0
    assert found[of("tidemark_slo_burn_rate", "shop", str(table), "1h")] == pytest.approx(1000)
    assert found[of("tidemark_slo_budget_left_percent", "shop", "")] == pytest.approx(100 - 100 / 0.01)


def test_tables_beyond_the_limit_have_no_series_of_their_own(table: ReplicatorTable, settings: Any) -> None:
    settings.TIDEMARK_METRICS_TABLES = 4
    for number in range(10):
        make_table(table.replicator, f"t{number:03}")
    found = scraped()
    assert found[of("tidemark_tables_not_exported")] == 7
    assert len([key for key in found if key[0] == "tidemark_merges_total"]) == 4
    assert found[of("tidemark_tables", "shop", "streaming")] == 11


def test_failures_are_counted_for_good(table: ReplicatorTable) -> None:
    for _ in range(3):
        stage_failed(table.replicator_id, Stage.CAPTURE, SourceUnreachable("away"))
    found = scraped()
    labels = ("shop", "capture", "source_unreachable")
    assert (found[of("tidemark_failures_total", *labels)], found[of("tidemark_retries_total", *labels)]) == (3, 3)
    assert found[of("tidemark_failures_open", "shop")] == 1
    Failure.objects.all().delete()  # as the garbage collector does after a while
    assert scraped()[of("tidemark_failures_total", *labels)] == 3
    assert FailureCount.objects.get().attempts == 3


def test_alive_is_who_answers_even_without_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "cursor", None)
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def heard_of(*roles: str) -> None:
    for role in roles:
        WorkerHeartbeat.objects.create(name=f"{role}@here", role=role, seen_at=clock())


def test_ready_is_what_has_database_broker_supervisor_and_workers(redis_url: str, settings: Any) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["checks"]["redis"] == "does not respond"
    settings.REDIS_URL = redis_url
    heard_of("supervisor", "control", "capture", "snapshot")
    answer = Client().get("/readyz")
    assert answer.json() == {
        "status": "not ready",
        "checks": {"database": "ok", "redis": "ok", "workers": "no heartbeat: merge"},
    }
    heartbeats.beat("merge@here", ["merge"])
    answer = Client().get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "ready")
    found = scraped()
    assert found[of("tidemark_queue_messages", "capture")] == 0
    assert found[of("tidemark_heartbeat_age_seconds", "merge@here", "merge")] < 60
    WorkerHeartbeat.objects.filter(role="supervisor").update(seen_at=clock() - timedelta(minutes=2))
    assert Client().get("/readyz").json()["checks"]["workers"] == "no heartbeat: supervisor"


def test_a_worker_of_several_queues_speaks_for_all_and_old_ones_are_forgotten(settings: Any, tmp_path: Path) -> None:
    settings.TIDEMARK_STAGING_URL = tmp_path.as_uri()
    WorkerHeartbeat.objects.create(name="gone@there", role="merge", seen_at=clock() - timedelta(days=2))
    garbage_collection.collect()
    heartbeats.beat("all@here", ["capture", "control", "merge", "snapshot"])
    assert list(WorkerHeartbeat.objects.values_list("name", "role")) == [("all@here", "several")]


def test_the_dashboard_and_the_rules_ask_for_figures_that_exist(
    table: ReplicatorTable, redis_url: str, settings: Any
) -> None:
    settings.REDIS_URL = redis_url
    answer = Client().get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).content.decode()
    there = {line.split()[2] for line in answer.splitlines() if line.startswith("# TYPE ")}
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    rules = yaml.safe_load((DOCS / "alerts.yml").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    assert len(asked) > 25
    names = {name for expression in asked for name in re.findall(r"\btidemark_[a-z_]+", expression)}
    assert names - there == set()
    written = set(re.findall(r"`(tidemark_[a-z_]+)`", (DOCS.parent / "monitoring.md").read_text()))
    assert {name.removesuffix("_total") for name in there} - {"tidemark_parked_rows"} == written  # deprecated
    assert values_of("status", asked) <= set(Status.values)
    assert values_of("state", asked) <= {state.value for state in TableState}
    assert values_of("window", asked) <= set(WINDOWS)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def values_of(label: str, asked: list[str]) -> set[str]:
    """That the expressions ask for."""
    found = (group for text in asked for group in re.findall(rf'\b{label}=~?"([^"]+)"', text))
    return {word for group in found for word in group.split("|")}


def filled(table: ReplicatorTable) -> None:
    """So that every figure with labels has a series."""
    stage_segments(table, 2)
    make_run(table, 0.5)
    stage_failed(table.replicator_id, Stage.CAPTURE, SourceUnreachable("away"))
    TableObjective.objects.create(table=table, percent=99.9, seconds=1)
    lags = Lags()
    lags.histogram.add_one(timedelta(seconds=2), 10)
    add(table, {clock(): lags})
    keep_standings([table.replicator])
    heard_of("merge")


def test_the_dashboard_and_the_rules_ask_by_labels_that_exist(
    table: ReplicatorTable, redis_url: str, settings: Any
) -> None:
    settings.REDIS_URL = redis_url
    filled(table)
    answer = Client().get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).content.decode()
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(answer):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    dashboard = json.loads((DOCS / "grafana.json").read_text())
    rules = yaml.safe_load((DOCS / "alerts.yml").read_text())
    told = [
        (rule["expr"], " ".join(rule["annotations"].values())) for group in rules["groups"] for rule in group["rules"]
    ]
    told += [(one["expr"], one["legendFormat"]) for panel in dashboard["panels"] for one in panel["targets"]]
    wrong = []
    for expression, words in told:
        named = re.findall(r"\b(tidemark_[a-z_]+)(?:\{([^}]*)\})?", expression)
        for name, selector in named:
            asked = set(re.findall(r"(\w+)\s*=", selector))
            wrong += [(expression, name, label) for label in asked - labels[name]]
        there = set().union(*(labels[name] for name, _ in named)) if named else set()
        grouped = re.findall(r"\b(?:by|on|ignoring|without) ?\(([^)]*)\)", expression)
        used = {label.strip() for group in grouped for label in group.split(",")}
        used |= set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", words))
        wrong += [(expression, "", label) for label in used - there]
    assert wrong == []
    assert len(told) > 40
