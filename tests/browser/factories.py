"""A database as a busy installation has it: every state, every page filled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.utils import timezone

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT, INT, STRING, decimal
from webapp.accounts.models import ApiToken
from webapp.connections.models import Connection
from webapp.monitoring.models import Failure, LogLine, MetricMinute, Stage, TimelineEvent
from webapp.replicators.models import (
    Desired,
    Draft,
    Replicator,
    ReplicatorTable,
    RunState,
    SchemaVersion,
    SegmentRow,
    SnapshotRun,
    Status,
    TableSelection,
)
from webapp.replicators.options import ReplicatorOptions

PASSWORD = "correct horse battery"
WORDS = ("customers", "orders", "order_items", "products", "payments", "shipments", "invoices", "reviews")


@dataclass(frozen=True)
class Installation:
    """What was made."""

    user: User
    connection: Connection
    replicators: dict[str, Replicator]
    draft: Draft


def make_user(name: str = "ada") -> User:
    """Signs in with PASSWORD."""
    return get_user_model().objects.create_user(name, password=PASSWORD, is_staff=True)


def make_connection(name: str = "shop production", status: str = "warning", host: str = "db.internal") -> Connection:
    """Tested a while ago."""
    checks = [
        {
            "name": "reachable",
            "title": "Reachable",
            "status": "ok",
            "detail": "MariaDB 11.4.5 answers in 2 ms.",
            "remedy": "",
        },
        {
            "name": "retention",
            "title": "Log retention",
            "status": status,
            "detail": "The log is kept for 1 day.",
            "remedy": "" if status == "ok" else "SET GLOBAL binlog_expire_logs_seconds = 604800;",
        },
    ]
    config = {"host": host, "port": 3306, "user": "tidemark", "tls": "preferred", "ca": ""}
    at = timezone.now() - timedelta(minutes=12)
    return Connection.objects.create(name=name, kind="mysql", config=config, last_check=checks, last_checked_at=at)


def make_replicator(connection: Connection, name: str, **fields: Any) -> Replicator:
    """Running, at a GTID offset, captured a second ago."""
    now = timezone.now()
    values: dict[str, Any] = {
        "desired": Desired.RUNNING,
        "status": Status.RUNNING,
        "target": {"kind": "iceberg", "namespace_prefix": "prod_"},
        "options": ReplicatorOptions().to_dict(),
        "checkpoint_offset": {"file": "binlog.000214", "position": 88123401, "gtid": "0-1-99120331"},
        "next_sequence": 99_120_332,
        "identity": "mariadb:1:8f2c41",
        "source_ts": now - timedelta(seconds=1),
        "captured_at": now - timedelta(seconds=1),
    }
    replicator = Replicator.objects.create(name=name, connection=connection, **(values | fields))
    TableSelection.objects.create(replicator=replicator, database="shop")
    return replicator


def make_table(replicator: Replicator, name: str, state: str = "streaming", **fields: Any) -> ReplicatorTable:
    """With rows in and out."""
    now = timezone.now()
    size = sum(name.encode())
    values: dict[str, Any] = {
        "database": "shop",
        "target_namespace": "prod_shop",
        "target_name": name,
        "state": state,
        "tracked": True,
        "schema_version": 1,
        "rows_estimate": size * 9000,
        "rows_read": size * 9000,
        "rows_inserted": size * 210,
        "rows_updated": size * 160,
        "rows_deleted": size * 9,
        "applied": 500,
        "last_sequence": 500,
        "applied_commit_ts": now - timedelta(seconds=3),
        "queryable_at": now - timedelta(seconds=2),
        "lag_ms": 1400,
    }
    return ReplicatorTable.objects.create(replicator=replicator, name=name, **(values | fields))


def make_metrics(table: ReplicatorTable, minutes: int = 60, scale: float = 1.0) -> None:
    """An hour with a wave and a peak of lag."""
    now = timezone.now().replace(second=0, microsecond=0)
    rows = []
    for back in range(minutes):
        wave = 1 + math.sin(back / 6) * 0.6
        inserts = int(scale * 4200 * wave)
        lag = int(2100 * wave + (180_000 if 20 < back < 24 else 0))
        rows.append(
            MetricMinute(
                replicator=table.replicator,
                table=table,
                minute=now - timedelta(minutes=back),
                inserts=inserts,
                updates=inserts // 2,
                deletes=inserts // 20,
                bytes=inserts * 180,
                merges=12,
                lag_p50_ms=lag // 2,
                lag_p95_ms=lag,
                lag_max_ms=int(lag * 1.2),
                lag_sum_ms=lag * inserts // 2,
                events=inserts + inserts // 2,
            )
        )
    MetricMinute.objects.bulk_create(rows)


def make_run(table: ReplicatorTable, fraction: float, estimate: int | None = 4_200_000) -> SnapshotRun:
    """A snapshot that goes on for four minutes already."""
    return SnapshotRun.objects.create(
        table=table,
        reason="initial",
        state=RunState.READING,
        started=True,
        planned_all=True,
        rows_estimate=estimate,
        rows_read=int(fraction * (estimate or 100_000)),
        started_at=timezone.now() - timedelta(minutes=4),
    )


def make_history(table: ReplicatorTable) -> None:
    """Two versions of a schema, the second from an ALTER TABLE."""
    first = TableSchema(
        TableId(table.database, table.name),
        (
            Column("id", BIGINT, nullable=False, source_type="bigint(20)"),
            Column("customer_id", INT, nullable=False, source_type="int(11)"),
            Column("amount", decimal(12, 2), nullable=True, source_type="decimal(12,2)"),
        ),
        ("id",),
    )
    second = TableSchema(
        first.table, (*first.columns, Column("coupon", STRING, nullable=True, source_type="varchar(40)")), ("id",)
    )
    SchemaVersion.objects.create(table=table, version=1, schema=first.to_dict())
    SchemaVersion.objects.create(
        table=table,
        version=2,
        schema=second.to_dict(),
        decision="apply",
        statement=f"ALTER TABLE {table.name} ADD COLUMN coupon varchar(40) NULL AFTER amount",
    )


def make_logs(replicator: Replicator, lines: int = 320) -> None:
    """Levels in the proportion of real life."""
    kinds = (
        ("info", "capture", "", "Committed 4 segments, 18,204 changes, up to binlog.000214:88123401"),
        ("info", "apply", "shop.orders", "Merged 8,120 rows in 1.4 s (equality deletes)"),
        ("debug", "snapshot", "shop.payments", "Chunk 41 read: 32,768 rows in 0.6 s"),
        ("warning", "apply", "shop.products", "Commit conflict with another writer; tried again"),
        (
            "error",
            "apply",
            "shop.invoices",
            "The column total of shop.invoices has a value that does not fit: 10000000000.00",
        ),
    )
    weights = (0, 1, 0, 2, 1, 0, 1, 3, 0, 1, 2, 0, 4)
    picked = [kinds[weights[n % len(weights)]] for n in range(lines)]
    LogLine.objects.bulk_create(
        [
            LogLine(replicator=replicator, level=lv, stage=stage, table=table, message=m)
            for lv, stage, table, m in picked
        ]
    )


def make_timeline(replicator: Replicator, user: User) -> None:
    """A day's events."""
    events = (
        ("created", "Created from the connection shop production", "", user),
        ("started", "Started", "", user),
        ("snapshot_done", "Initial snapshot of shop.orders done: 4,200,000 rows in 3 min 12 s", "shop.orders", None),
        ("schema_changed", "ALTER TABLE orders ADD COLUMN coupon: applied", "shop.orders", None),
        ("retrying", "The source does not answer; tried again after 4 s", "", None),
        ("resumed", "Resumed", "", user),
        ("table_failed", "shop.invoices stopped: a value does not fit", "shop.invoices", None),
    )
    for kind, summary, table, who in events:
        TimelineEvent.objects.create(replicator=replicator, kind=kind, summary=summary, table=table, user=who)


def fail_table(table: ReplicatorTable) -> None:
    """Stopped for good."""
    table.state = "failed"
    table.error_code = "value_does_not_fit"
    table.error_message = f"The column total of {table} has a value that does not fit its target type: 10000000000.00."
    table.error_remedy = "Resnapshot the table once its cause is gone, or remove it from the replicator."
    table.attempt = 6
    table.first_failure_at = timezone.now() - timedelta(minutes=40)
    table.save()
    Failure.objects.create(
        replicator=table.replicator,
        table=table,
        stage=Stage.APPLY,
        code=table.error_code,
        message=table.error_message,
        remedy=table.error_remedy,
        attempt=6,
    )


def stage_segments(table: ReplicatorTable, number: int = 5) -> None:
    """Waiting to be applied."""
    for index in range(number):
        SegmentRow.objects.create(
            table=table,
            kind="log",
            schema_version=1,
            first_sequence=501 + index * 100,
            last_sequence=600 + index * 100,
            path=f"segments/{table.pk}/{index}.arrow",
            rows=100_000,
            size=18_000_000,
        )


def _busy(connection: Connection, user: User) -> Replicator:
    busy = make_replicator(connection, "shop to lakehouse")
    tables = {word: make_table(busy, word) for word in WORDS}
    for word, state, fraction in (("payments", "loading", 0.62), ("shipments", "reloading", 0.18)):
        tables[word].state = state
        tables[word].save()
        make_run(tables[word], fraction)
    fail_table(tables["invoices"])
    stage_segments(tables["orders"])
    make_metrics(tables["orders"])
    make_history(tables["orders"])
    make_logs(busy)
    make_timeline(busy, user)
    return busy


def _retrying(connection: Connection, now: datetime) -> Replicator:
    return make_replicator(
        connection,
        "erp",
        status=Status.RETRYING,
        attempt=4,
        first_failure_at=now - timedelta(minutes=3),
        next_retry_at=now + timedelta(seconds=25),
        error_code="source_unreachable",
        error_message="The server erp.internal:3306 does not answer: connection refused.",
        error_remedy="Check that the server runs, and that this machine may connect to its address and port.",
        source_ts=now - timedelta(minutes=9),
    )


def make_installation() -> Installation:
    """Everything at once."""
    now = timezone.now()
    user = make_user()
    connection = make_connection()
    erp = make_connection("erp replica", "failed", "erp.internal")
    make_connection("warehouse", "ok", "wh.internal")
    busy = _busy(connection, user)
    retrying = _retrying(erp, now)
    make_table(retrying, "ledger")
    quiet = make_replicator(connection, "reference data", target={"kind": "iceberg", "namespace_prefix": ""})
    make_metrics(make_table(quiet, "countries"), scale=0.01)
    paused = make_replicator(
        connection, "analytics of a department with a rather long name", status=Status.PAUSED, desired=Desired.PAUSED
    )
    make_table(paused, "sessions")
    created = make_replicator(
        connection, "new one", status=Status.CREATED, desired=Desired.STOPPED, checkpoint_offset=None, source_ts=None
    )
    failed = make_replicator(
        erp,
        "billing",
        status=Status.FAILED,
        error_code="log_purged",
        error_message="The source no longer has binlog.000117, where this replicator would go on.",
        error_remedy="Resnapshot all tables, and keep the log for longer: SET GLOBAL binlog_expire_logs_seconds = 604800;",
    )
    draft = Draft.objects.create(
        user=user,
        name="crm",
        step="tables",
        data={"connection": connection.pk, "selection": {"databases": ["crm"], "tables": [["shop", "orders"]]}},
    )
    ApiToken.objects.create(user=user, name="nightly checks", prefix="tdm_4fQz81", digest="0" * 64)
    made = (busy, retrying, quiet, paused, created, failed)
    return Installation(user, connection, {one.name: one for one in made}, draft)
