"""A database that was filled before alerts, objectives, lineage and exact lags came is brought forward, and everything
answers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.utils import timezone

from replicator.sources import registry
from tests.addresses import addresses
from tests.browser.factories import make_user
from tests.browser.fake_source import FORM, FakeSource
from tests.integration.older import older_database
from webapp.accounts import services as accounts
from webapp.accounts.models import ApiToken
from webapp.alerts import services as alerts
from webapp.alerts.evaluation import evaluate
from webapp.alerts.models import Alert, Rule, RuleKind
from webapp.console.definitions.export import export
from webapp.monitoring.models import DeadLetterRow, MetricMinute
from webapp.monitoring.slo.lag_histograms import drop_old
from webapp.replicators.models import Draft, Replicator, ReplicatorTable, SchemaVersion
from webapp.streams.groups import join
from webapp.streams.models import Stream
from webapp.streams.services import create_stream
from webapp.telemetry import delivery
from webapp.worker import supervisor
from webapp.worker.upkeep import garbage_collection

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:No directory at"),
]
HTMX = {"HTTP_HX_REQUEST": "true"}
OPTIONS = Path(__file__).resolve().parents[3] / "golden" / "options.1.json"
MINUTES, INSERTS = 30, 40
TOKEN = "metrics-s3cret-token"
# The first answers 503 without workers, and the second has its own token.
# The third wants a shard, and the last two a lake that has the tables.
ELSEWHERE = {"readyz", "metrics", "api-stream-changes", "api-table-target", "api-table-preview"}


def schema_of(name: str, *columns: str) -> dict[str, Any]:
    """As it was stored."""
    from replicator.model.identifiers import TableId
    from replicator.model.schema import Column, TableSchema
    from replicator.model.types import BIGINT, STRING

    made = [Column("id", BIGINT, nullable=False, source_type="bigint(20)")]
    made += [Column(column, STRING, nullable=True, source_type="varchar(40)") for column in columns]
    return TableSchema(TableId("shop", name), tuple(made), ("id",)).to_dict()


def fill(then: Any) -> None:
    """With the models of then: two replicators in different states, what they staged, and what happened."""

    def make(label: str, **values: Any) -> Any:
        return then.get_model(label).objects.create(**values)

    now = timezone.now()
    source = make("connections.Connection", name="shop", kind="mysql", config={"host": "db", "port": 3306, "user": "u"})
    options = json.loads(OPTIONS.read_text())["given"] | {"slo_minutes": 6.69, "snapshot_paused": False}
    for name, status in (("copy", "running"), ("broken", "failed")):
        one = make(
            "replicators.Replicator", name=name, connection=source, desired="running", status=status, options=options,
            target={"kind": "iceberg", "namespace_prefix": ""}, checkpoint_offset={"file": "b.01", "position": 4},
            next_sequence=1000, identity="mariadb:1:8f2c41", source_ts=now, captured_at=now,
            error_code="log_purged" if status == "failed" else "", error_message="The log is gone.",
        )  # fmt: skip
        make("replicators.TableSelection", replicator=one, database="shop", discovered=True)
        for table, state in (("orders", "streaming"), ("items", "failed"), ("notes", "loading")):
            row = make(
                "replicators.ReplicatorTable", replicator=one, database="shop", name=table, target_namespace=name,
                target_name=table, state=state, tracked=True, schema_version=2, applied=499, last_sequence=699,
                rows_inserted=1200, rows_updated=30, rows_deleted=4, rows_read=70, applied_commit_ts=now,
                queryable_at=now, lag_ms=900, load_complete=True,
                error_code="value_does_not_fit" if state == "failed" else "",
            )  # fmt: skip
            for version, columns in ((1, ("name",)), (2, ("name", "coupon"))):
                make(
                    "replicators.SchemaVersion", table=row, version=version, schema=schema_of(table, *columns),
                    statement="ALTER TABLE …" if version > 1 else "", decision="applied" if version > 1 else "",
                )  # fmt: skip
            for number in range(4):  # two of them are applied
                make(
                    "replicators.SegmentRow", table=row, kind="log", schema_version=2, rows=100, size=9000, inserts=100,
                    first_sequence=300 + number * 100, last_sequence=399 + number * 100,
                    path=f"{one.pk}/{row.pk}/{number}",
                    first_commit_ts=now, last_commit_ts=now, applied_at=now if number < 2 else None,
                )  # fmt: skip
            for back in range(MINUTES):
                make(
                    "monitoring.MetricMinute", replicator=one, table=row, inserts=INSERTS, merges=1, merge_seconds=0.5,
                    minute=now.replace(second=0, microsecond=0) - timedelta(minutes=back), events=INSERTS,
                    lag_p50_ms=900, lag_p95_ms=1900, lag_max_ms=2900, lag_sum_ms=50_000,
                )  # fmt: skip
            run = make(
                "replicators.SnapshotRun", table=row, reason="initial", started=True, started_at=now,
                state="reading" if state == "loading" else "done", rows_estimate=1000, rows_read=500,
            )  # fmt: skip
            make("replicators.ChunkRow", run=run, number=1, state="done", rows=500)
            make("replicators.TableEventRow", replicator=one, table=row, database="shop", name=table, sequence=450,
                 kind="ALTER_TABLE", schema_version=2, detail={})  # fmt: skip
        for attempt in range(3):
            make(
                "monitoring.Failure", replicator=one, table=row, stage="apply", code="target_unreachable",
                message="No answer.", attempt=attempt + 1, resolved_at=None if attempt else now,
            )  # fmt: skip
        make("monitoring.LogLine", replicator=one, level="error", stage="apply", table="shop.items", message="It broke")
        make("monitoring.TimelineEvent", replicator=one, kind="started", summary="Started")
        make(
            "monitoring.TimelineEvent",
            replicator=one,
            kind="schema_changed",
            summary="ALTER TABLE",
            table="shop.orders",
        )


@pytest.fixture
def forward(transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    """The filled database, as it is after the upgrade."""
    monkeypatch.setitem(registry.KINDS, "mysql", replace(registry.KINDS["mysql"], open=FakeSource, form=FORM))
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.TIDEMARK_METRICS_TOKEN = TOKEN
    settings.TIDEMARK_STAGING_URL = tmp_path.as_uri()
    settings.TIDEMARK_OPENLINEAGE_FILE = str(tmp_path / "lineage.jsonl")
    with older_database() as then:
        with connection.cursor() as cursor:  # it is the old one
            cursor.execute("SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'alerts%%'")
            assert cursor.fetchone()[0] == 0
        fill(then)


@pytest.fixture
def client(forward: None) -> Client:
    user = make_user()
    client = Client(headers={"authorization": f"Bearer {accounts.create_token(user=user, name='tests')}"})
    client.force_login(user)
    return client


def arguments(replicator: Replicator) -> dict[str, object]:
    channel = alerts.save_channel(name=f"mail {replicator}", kind="email", recipients=["ada@example.com"])
    table = replicator.tables.get(name="orders")
    user = get_user_model().objects.get(username="ada")
    draft = Draft.objects.create(user=user, name="d", step="tables", data={"connection": replicator.connection_id})
    token = ApiToken.objects.get(user=user)
    kept = {"sequence": 1, "operation": "INSERT", "offset": "x:1", "code": "value_does_not_fit", "message": "no text"}
    row = DeadLetterRow.objects.create(replicator=replicator, table=table, data=b"\0", size=1, **kept)
    stream = f"stream-{replicator.pk}"
    if not Stream.objects.filter(name=stream).exists():
        join(stream=create_stream(name=stream, replicator=replicator), group="billing")
    return {
        "*stream*.name": stream, "api-stream*.group": "billing",
        "api-dead-letter-row*.pk": row.pk, "connections:*.pk": replicator.connection_id,
        "api-connection*.pk": replicator.connection_id,
        "connections:*.kind": "mysql", "api-kind*.pk": "mysql", "destinations:*.kind": "kafka",
        "destinations:*.pk": replicator.destination_id, "api-destination*.pk": replicator.destination_id,
        "accounts:*.pk": token.pk, "accounts:*.token": "none", "api-token*.pk": token.pk,
        "alerts:channel.pk": channel.pk, "alerts:delete.pk": channel.pk, "alerts:test.pk": channel.pk,
        "api-alert-channel*.pk": channel.pk, "alerts:snooze.pk": 1, "*.kind": "lag",
        "api-table-*.pk": table.pk, "*.table": table.pk, "*.pk": replicator.pk, "*.replicator": replicator.pk,
        "*.draft": draft.pk, "*.step": "source", "*.action": "pause", "*.row": row.pk,
    }  # fmt: skip


def test_everything_goes_on_with_a_database_from_before(client: Client) -> None:
    """One upgrade for all of it: bringing a database back and forth takes its time."""
    copy, broken = Replicator.objects.order_by("-name")
    figures_that_survive_are_right(client, copy)
    the_old_history_reads_as_what_it_tells(client, copy)
    every_address_answers(client, copy)
    rounds_of_every_kind_go_on()
    every_address_answers(client, broken, **HTMX)
    what_was_there_can_be_changed_and_written_out(client, copy)


def rounds_of_every_kind_go_on() -> None:
    """Supervision, alerts, lineage and housekeeping find nothing that they cannot read."""
    sent: list[Any] = []
    supervisor.supervise(lambda *task, **options: sent.append(task))
    evaluate()
    delivery.tell()
    drop_old(timezone.now())
    garbage_collection.collect()
    assert sent
    assert Rule.objects.count() == 2 * len(RuleKind.values)
    fired = set(Alert.objects.filter(fired_at__isnull=False).values_list("replicator__name", "rule__kind"))
    assert {("copy", "table_failed"), ("broken", "table_failed"), ("broken", "stopped")} <= fired


def every_address_answers(client: Client, one: Replicator, **headers: Any) -> None:
    wrong = {}
    for name, path in addresses(arguments(one)):
        status = client.get(path, **headers).status_code
        if name not in ELSEWHERE and status not in {200, 302, 405}:
            wrong[name, path] = status
    assert wrong == {}


def figures_that_survive_are_right(client: Client, one: Replicator) -> None:
    api = f"/api/v1/replicators/{one.pk}/"
    [counted] = client.get(f"{api}failures/counts/").json()["results"]
    assert (counted["code"], counted["attempts"], counted["open"]) == ("target_unreachable", 3, 2)
    assert client.get(f"{api}failures/").json()["count"] == 3
    tables = {line["table"]: line for line in client.get(f"{api}tables/").json()["results"]}
    orders = tables["orders"]
    assert {name: line["state"] for name, line in tables.items()} == {
        "orders": "streaming", "items": "failed", "notes": "loading"
    }  # fmt: skip
    assert orders["rows"]["inserted"] == 1200
    assert sum(MetricMinute.objects.filter(replicator=one).values_list("inserts", flat=True)) == 3 * MINUTES * INSERTS
    summary = client.get(f"{api}").json()
    assert summary["options"]["slo_minutes"] == 6.69  # what was stored stays, though it could not be set today
    assert summary["options"]["on_log_lost"] == "stop"
    assert summary["failures_open"] == 1, "one outage, tried twice"
    exposed = client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"}).content.decode()
    assert 'tidemark_backlog_rows{replicator="copy"} 600.0' in exposed
    assert 'tidemark_rows_total{operation="inserted",replicator="copy",table="shop.orders"} 1200.0' in exposed


def the_old_history_reads_as_what_it_tells(client: Client, one: Replicator) -> None:
    """Versions from before it was kept what made them know their columns, and lineage has them."""
    table = one.tables.get(name="orders")
    page = client.get(f"/replicators/{one.pk}/lineage/{table.pk}/").content.decode()
    assert "coupon" in page
    assert "coupon" in client.get(f"/replicators/{one.pk}/schema/").content.decode()
    assert SchemaVersion.objects.filter(table=table, change={}).count() == 2
    assert "ALTER TABLE" in client.get(f"/replicators/{one.pk}/activity/").content.decode()
    assert "It broke" in client.get(f"/replicators/{one.pk}/logs/").content.decode()


def what_was_there_can_be_changed_and_written_out(client: Client, one: Replicator) -> None:
    alerts.save_rule(replicator=one, kind="lag", params={"minutes": 1})
    settings = f"/replicators/{one.pk}/settings/"
    form = client.get(settings).context["form"]
    data = {name: form[name].value() for name in form.fields}
    answer = client.post(
        settings, {name: value for name, value in data.items() if value is not None and value is not False}
    )
    assert answer.status_code == 302, answer.context["form"].errors
    assert "slo_minutes: 6.69" in export()
    table = ReplicatorTable.objects.get(replicator=one, name="items")
    assert client.post(f"/replicators/{one.pk}/tables/{table.pk}/resnapshot/").status_code == 302
    table.refresh_from_db()
    assert table.state != "failed"
