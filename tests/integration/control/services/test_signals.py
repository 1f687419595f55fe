"""Signals in the journal: executed once, together with the checkpoint; a wrong one is reported and is not a failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import call_command

from replicator.errors import FenceLost
from replicator.model.identifiers import TableId
from replicator.state.journal import SchemaVersion, Signal
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, schema_of
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import services
from webapp.replicators.models import Replicator, RunState, SnapshotRun
from webapp.worker.lease.lease_store import OrmLeaseStore

pytestmark = pytest.mark.django_db


@pytest.fixture
def capture(make: Any) -> Captured:
    """Of two tables that stream."""
    one = Captured(make(tables=(ORDERS, ITEMS)))
    one.begin()
    one.commit(next_sequence=10, schemas=tuple(SchemaVersion(1, schema_of(table)) for table in (ORDERS, ITEMS)))
    SnapshotRun.objects.update(state="done", planned_all=True)
    one.replicator.tables.update(state="streaming", load_complete=True)
    return one


def send(capture: Captured, kind: str, data: Any = None, name: str = "s1") -> TimelineEvent:
    text = data if isinstance(data, str) else "" if data is None else json.dumps(data)
    capture.commit(next_sequence=11, signals=(Signal(name, kind, text),))
    found = TimelineEvent.objects.filter(kind__startswith="signal").order_by("id").last()
    assert found is not None
    return found


def execute(*tables: str, **more: Any) -> dict[str, Any]:
    return {"data-collections": list(tables), "type": "incremental", **more}


def parts() -> list[tuple[str, str, str]]:
    runs = SnapshotRun.objects.exclude(scope="whole").order_by("id").select_related("table")
    return [(run.table.name, run.scope, run.condition) for run in runs]


def test_a_whole_table_a_condition_and_keys_are_asked_for(capture: Captured) -> None:
    event = send(capture, "execute-snapshot", execute("shop.orders"))
    assert (event.kind, event.summary) == ("signal", "Signal s1: shop.orders is read.")
    assert capture.row(ORDERS).state == "reloading"
    condition = [{"data-collection": "shop.items", "filter": "id > 5"}]
    send(capture, "execute-snapshot", execute("shop.items", **{"additional-conditions": condition}))
    event = send(capture, "execute-snapshot", execute("shop.it.*", keys=[1, 2]))
    assert event.summary == "Signal s1: 2 keys of shop.items are read."
    assert parts() == [("items", "rows", "id > 5"), ("items", "keys", "")]
    assert {run.reason for run in SnapshotRun.objects.exclude(state="done")} == {"requested by signal s1"}


def test_what_is_under_way_pauses_goes_on_and_stops(capture: Captured) -> None:
    for table in (ORDERS, ITEMS):
        services.read_keys(table=capture.row(table), keys="1")
    assert send(capture, "pause-snapshot", execute("shop.items")).summary == "Signal s1: 1 snapshot paused."
    assert send(capture, "pause-snapshot", {}).summary == "Signal s1: 1 snapshot paused."
    assert send(capture, "resume-snapshot").summary == "Signal s1: 2 snapshots resumed."
    assert send(capture, "stop-snapshot", {"type": "incremental"}).summary == "Signal s1: 2 snapshots stopped."
    assert send(capture, "stop-snapshot").summary == "Signal s1: no snapshots stopped."
    assert set(SnapshotRun.objects.exclude(scope="whole").values_list("state", flat=True)) == {RunState.CANCELLED}


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("log", {}, "Unknown signal 'log'"),
        ("execute-snapshot", "{", "is not valid JSON"),
        ("execute-snapshot", execute("shop.none"), "has none of the tables shop.none"),
        ("execute-snapshot", execute("shop.*", keys=[1]), "Keys apply to one table"),
        ("execute-snapshot", execute("shop.items", keys=["x"]), "'x' is not a valid value of id"),
        (
            "execute-snapshot",
            execute("shop.items", **{"additional-condition": "a;b"}),
            "Invalid condition",
        ),
        ("execute-snapshot\0", "\0", "Unknown signal"),
    ],
)
def test_what_is_wrong_is_told_and_leaves_nothing_behind(capture: Captured, kind: str, data: Any, said: str) -> None:
    event = send(capture, kind, data, "bad\0one" if "\0" in kind else "bad")
    assert event.kind == "signal_refused"
    assert said in event.summary
    assert parts() == []
    assert Replicator.objects.get().status != "failed"
    assert Replicator.objects.get().next_sequence == 11


def test_of_several_tables_all_are_read_or_none(capture: Captured) -> None:
    capture.replicator.tables.filter(name="orders").update(state="failed")
    condition = {"additional-condition": "id > 5"}
    assert send(capture, "execute-snapshot", execute("shop.items", "shop.orders", **condition)).kind == "signal_refused"
    assert parts() == []


def test_a_stale_owners_signal_is_not_obeyed(capture: Captured) -> None:
    """Who has the lease reads it again, and obeys it then."""
    OrmLeaseStore().release(capture.lease)
    with pytest.raises(FenceLost):
        capture.commit(next_sequence=11, signals=(Signal("s", "execute-snapshot", json.dumps(execute("shop.items"))),))
    assert capture.row(ITEMS).state == "streaming"
    assert not TimelineEvent.objects.filter(kind__startswith="signal").exists()


def test_the_plan_names_the_table_and_the_command_its_statement(capture: Captured, capsys: Any) -> None:
    assert capture.journal.plan().signals is None
    options = type(capture.replicator.parsed_options)(signal_table="ops.tide.marks")
    services.update_options(replicator=capture.replicator, options=options)
    plan = capture.journal.plan()
    assert plan.signals == TableId("ops", "tide.marks")
    assert plan.signals in plan.followed
    assert plan.signals not in plan.tables
    call_command("snapshot", capture.replicator.name, "--signal-table")
    assert capsys.readouterr().out.startswith('CREATE TABLE "ops"."tide.marks" (id VARCHAR(42) PRIMARY KEY')
