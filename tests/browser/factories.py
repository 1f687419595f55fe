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
from replicator.model.types import BIGINT, DATE, INT, STRING, decimal
from webapp.accounts.models import ApiToken
from webapp.alerts.evaluation import evaluate
from webapp.alerts.models import Alert, Channel
from webapp.connections.models import Connection
from webapp.destinations.services import built_in
from webapp.monitoring.models import (
    DeadLetterRow,
    Failure,
    GaugeRow,
    LagSpan,
    LogLine,
    MetricMinute,
    MetricRow,
    Resolution,
    Stage,
    TableObjective,
    TimelineEvent,
)
from webapp.monitoring.slo.lag_histograms import Lags, add
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
from webapp.streams.groups import join
from webapp.streams.models import Stream
from webapp.streams.services import create_stream

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
    return get_user_model().objects.create_superuser(name, password=PASSWORD)


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
            "detail": "The log is retained for 1 day.",
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
        "destination": built_in(),
        "target": {"namespace_prefix": "prod_"},
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
    rows, gauges, late = [], [], {}
    for back in range(minutes):
        wave = 1 + math.sin(back / 6) * 0.6
        inserts = int(scale * 4200 * wave)
        minute, events = now - timedelta(minutes=back), inserts + inserts // 2
        rows.append(
            MetricMinute(
                replicator=table.replicator,
                table=table,
                minute=minute,
                inserts=inserts,
                updates=inserts // 2,
                deletes=inserts // 20,
                bytes=inserts * 180,
                merges=12,
                merge_seconds=12 * wave,
                merge_longest=2.4 * wave,
                events=events,
            )
        )
        gauges += [
            GaugeRow(
                replicator=table.replicator,
                table=whose,
                span=LagSpan.MINUTE,
                at=minute,
                waiting_rows=inserts,
                waiting_bytes=inserts * 180,
                waiting_seconds=2 * wave,
            )
            for whose in (None, table)
        ]
        late[minute] = Lags()
        for share in range(10):  # from half the wave's lag up to it
            lag = timedelta(seconds=2.1 * wave * (10 + share) / 20 + (180 if 20 < back < 24 else 0))
            late[minute].histogram.add_one(lag, events // 10)
    add(table, late)
    MetricMinute.objects.bulk_create(rows)
    GaugeRow.objects.bulk_create(gauges, ignore_conflicts=True)  # those of all tables are there from the first one
    names = ("inserts", "updates", "deletes", "bytes", "merges", "merge_seconds", "merge_longest")
    totals = [
        MetricRow(
            replicator=row.replicator,
            span=LagSpan.MINUTE,
            at=row.minute,
            **{name: getattr(row, name) for name in names},
        )
        for row in rows
    ]
    MetricRow.objects.bulk_create(totals, ignore_conflicts=True)


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
        decision="applied",
        change={"kind": "ALTER_TABLE", "renamed": {}, "decision": "add column coupon", "left_out": ["card_number"]},
        statement=f"ALTER TABLE {table.name} ADD COLUMN coupon varchar(40) NULL AFTER amount",
    )


def make_wide_history(table: ReplicatorTable, columns: int = 300, versions: int = 12) -> None:
    """A wide table, one of whose columns is renamed with every version."""
    for version in range(1, versions + 1):
        made = [Column("id", BIGINT, nullable=False, source_type="bigint(20)")]
        made += [Column(f"c{n:03}", STRING, nullable=True, source_type="varchar(200)") for n in range(columns - 2)]
        made[8] = Column(f"moving_{version}", STRING, nullable=True, source_type="varchar(200)")
        made += [Column("born", DATE, nullable=True, source_type="date")]
        change: dict[str, Any] = {"kind": "", "renamed": {}}
        if version > 1:
            renamed = {f"moving_{version - 1}": f"moving_{version}"}
            change = {"kind": "ALTER_TABLE", "renamed": renamed, "decision": f"rename column to moving_{version}"}
        schema = TableSchema(table.table_id, tuple(made), ("id",))
        SchemaVersion.objects.create(table=table, version=version, schema=schema.to_dict(), change=change)
    ReplicatorTable.objects.filter(pk=table.pk).update(schema_version=versions)


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
    stack = "org.apache.spark.SparkArithmeticException: [NUMERIC_VALUE_OUT_OF_RANGE] 10000000000.00\n" + "\n".join(
        f"\tat org.apache.spark.sql.errors.Execution{n}.raise(Execution.scala:{n})" for n in range(30)
    )
    details: dict[str, dict[str, Any]] = {
        "error": {"code": "value_does_not_fit", "stack": stack},
        "warning": {"code": "target_conflict"},
    }
    LogLine.objects.bulk_create(
        [
            LogLine(replicator=replicator, level=lv, stage=stage, table=table, message=m, detail=details.get(lv, {}))
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
        ("failover", "Failover: capture is taken over from a worker whose lease expired 11 s ago", "", None),
        ("ddl", "TRUNCATE TABLE of shop.reviews: truncate: ignored by policy", "shop.reviews", None),
        ("table_skipped", "shop.products is skipped until a user resumes it", "shop.products", user),
        ("resumed", "Resumed", "", user),
        ("table_failed", "shop.invoices stopped: a value does not fit", "shop.invoices", None),
    )
    for kind, summary, table, who in events:
        told = {"changes": ["+ coupon varchar(40) → string"], "decision": "add column coupon", "version": 2}
        more: dict[str, dict[str, Any]] = {
            "schema_changed": told,
            "failover": {"work": "capture", "worker": "worker-2.internal"},
            "ddl": {"statement": "TRUNCATE TABLE reviews", "decision": "truncate: ignored by policy"},
            "table_failed": {"code": "value_does_not_fit", "remedy": "Fix the cause and resnapshot the table."},
        }
        detail = more.get(kind, {})
        TimelineEvent.objects.create(
            replicator=replicator, kind=kind, summary=summary, table=table, user=who, detail=detail
        )


def fail_table(table: ReplicatorTable) -> None:
    """Stopped for good."""
    table.state = "failed"
    table.error_code = "value_does_not_fit"
    table.error_message = f"The column total of {table} has a value that does not fit its target type: 10000000000.00."
    table.error_remedy = "Fix the cause and resnapshot the table, or remove it from the replicator."
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


def make_failures(replicator: Replicator, now: datetime) -> None:
    """A day's: a target that could not be written for a while, a server that was away, a row that cannot be decoded."""
    orders, reviews = replicator.tables.get(name="orders"), replicator.tables.get(name="reviews")
    rows = [
        Failure(
            replicator=replicator, table=orders, stage=Stage.APPLY, code="target_conflict", attempt=number,
            message="Another writer changed the target table: branch main has changed: expected id 4417, found 4418",
            remedy="Retried automatically. If it persists, look for another writer of the target table.",
            first_sequence=99_100_001, last_sequence=99_104_222, next_retry_at=now - timedelta(hours=3),
            resolved_at=now - timedelta(hours=2, minutes=50),
        )
        for number in range(1, 9)
    ]  # fmt: skip
    rows.append(
        Failure(
            replicator=replicator, table=reviews, stage=Stage.CAPTURE, code="unsupported_charset", attempt=1,
            message="shop.reviews: the column body has bytes that are no utf8mb4 at character 17 of its value.",
            remedy="Exclude the column from the replicator, then resnapshot the table.",
            offset_after="binlog.000214:88120077", offset_until="binlog.000214:88121400",
        )
    )  # fmt: skip
    rows.append(
        Failure(
            replicator=replicator, stage=Stage.CAPTURE, code="source_unreachable", attempt=3,
            message="The server db.internal:3306 does not answer: connection refused.",
            remedy="Check that the server is running and reachable from this machine at its address and port.",
            offset_after="binlog.000214:88100000", next_retry_at=now + timedelta(seconds=45),
        )
    )  # fmt: skip
    Failure.objects.bulk_create(rows)
    Failure.objects.filter(replicator=replicator, code="target_conflict").update(at=now - timedelta(hours=3))


def make_dead_letters(table: ReplicatorTable, user: User) -> None:
    """Three that wait, one with more bytes than are kept, and one that was discarded."""
    rows = [
        DeadLetterRow(
            replicator=table.replicator, table=table, sequence=99_100_000 + number,
            operation="INSERT" if number % 2 else "UPDATE",
            offset=f"binlog.000214:{88_120_077 + number}", txn_id=f"0-1-{99_120_000 + number}",
            code="value_does_not_fit", column="body",
            commit_ts=timezone.now() - timedelta(minutes=50 + number),
            message="Column body (text) contains text that is not valid Unicode.",
            remedy="Correct the row on the source, or exclude the column from the replicator; "
            "then resnapshot the table.",
            data=b"\0\x11\x22\0\0 a review \xff\xfe" * (1 + 60 * number),
            size=17 * (1 + 60 * number) + (90_000 if number == 2 else 0),
            keys=[{"id": str(4_711 + number)}] if number != 1 else None,
        )
        for number in range(4)
    ]  # fmt: skip
    rows[3].resolved_at, rows[3].resolution, rows[3].resolved_by = timezone.now(), Resolution.DISCARDED, user
    DeadLetterRow.objects.bulk_create(rows)
    ReplicatorTable.objects.filter(pk=table.pk).update(dead_letters=3)


def make_alerts(busy: Replicator) -> None:
    """A channel, a table's own objective, alerts that fire (one round says which) and one that has cleared."""
    channel = Channel.objects.create(
        name="on call", kind="email", config={"recipients": ["on-call@example.com", "data@example.com"]}
    )
    Channel.objects.create(
        name="data team", kind="slack", config={"host": "hooks.slack.com"},
        last_error="The server answered with HTTP 404.",
        last_error_at=timezone.now() - timedelta(hours=2),
    )  # fmt: skip
    TableObjective.objects.create(table=busy.tables.get(name="orders"), percent=99.9, seconds=30)
    evaluate()
    rule = busy.alert_rules.get(kind="lag")
    rule.channels.add(channel)
    ago = timezone.now() - timedelta(hours=5)
    Alert.objects.create(
        rule=rule, replicator=busy, severity="critical", summary="The target is 21 min behind the source", since=ago,
        seen_at=ago, fired_at=ago + timedelta(minutes=2), cleared_at=ago + timedelta(minutes=31),
    )  # fmt: skip


def make_streams(busy: Replicator) -> None:
    """One with two groups, of which one is behind; one that is disabled."""
    orders, reviews = busy.tables.get(name="orders"), busy.tables.get(name="reviews")
    stream = create_stream(name="orders-to-billing", replicator=busy, shards=4, tables=[orders.table_id])
    create_stream(name="everything", replicator=busy, retention_hours=72, exclude=[reviews.table_id])
    Stream.objects.filter(name="everything").update(enabled=False)
    Stream.objects.filter(pk=stream.pk).update(oldest=400)
    join(stream=Stream.objects.get(pk=stream.pk), group="billing", name="worker 1", lease_seconds=600)
    join(stream=stream, group="search-index", begin="latest")


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
    make_failures(busy, timezone.now())
    make_dead_letters(tables["reviews"], user)
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
        error_remedy="Check that the server is running and reachable from this machine at its address and port.",
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
    quiet = make_replicator(connection, "reference data", target={"namespace_prefix": ""})
    make_metrics(make_table(quiet, "countries"), minutes=12, scale=0.01)
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
        error_remedy=(
            "Resnapshot all tables, and increase the log retention of the source: SET GLOBAL binlog_expire_logs_seconds"
            " = 604800;"
        ),
    )
    draft = Draft.objects.create(
        user=user,
        name="crm",
        step="tables",
        data={"connection": connection.pk, "selection": {"databases": ["crm"], "tables": [["shop", "orders"]]}},
    )
    ApiToken.objects.create(user=user, name="nightly checks", prefix="tdm_4fQz81", digest="0" * 64)
    made = (busy, retrying, quiet, paused, created, failed)
    make_alerts(busy)
    make_streams(busy)
    return Installation(user, connection, {one.name: one for one in made}, draft)
