"""Alerts fire when a condition has lasted long enough and clear when it is over; each change is delivered once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.browser.factories import make_connection, make_replicator, make_table
from tests.integration.alerts.conftest import START, Watch
from webapp.alerts import services
from webapp.alerts.evaluation import evaluate
from webapp.alerts.models import Alert, Channel, Delivery, Rule, RuleKind
from webapp.monitoring.slo.lag_histograms import Lags, add
from webapp.replicators.models import Desired, ReplicatorTable, Status

pytestmark = pytest.mark.django_db


def told() -> list[tuple[str, int, str]]:
    return [(one.event, one.round, one.channel.name) for one in Delivery.objects.select_related("channel")]


def fail(*tables: ReplicatorTable) -> None:
    ReplicatorTable.objects.filter(pk__in=[table.pk for table in tables]).update(state="failed")


def test_every_replicator_is_watched_from_its_first_round(watch: Watch) -> None:
    assert set(Rule.objects.values_list("kind", flat=True)) == set(RuleKind.values)
    assert (watch.open, told()) == ([], [])


def test_a_failed_table_fires_at_once_and_clears_after_a_calm_minute(watch: Watch, email: Channel) -> None:
    watch.tell("table_failed", email)
    fail(watch.table)
    assert watch.round() == 1
    fired = watch.now
    assert watch.round() == 0
    watch.table.save()  # streaming again
    watch.round()
    assert len(watch.open) == 1
    assert watch.round() == 1
    alert = Alert.objects.get()
    assert (alert.fired_at, alert.summary) == (fired, "1 table has failed: shop.orders")
    assert alert.cleared_at is not None
    assert alert.cleared_at - fired >= timedelta(seconds=60)
    assert told() == [("fired", 1, "mail"), ("cleared", 1, "mail")]


def test_a_further_failed_table_is_told_again_and_one_that_recovers_is_not(watch: Watch, email: Channel) -> None:
    watch.tell("table_failed", email)
    others = [make_table(watch.replicator, name) for name in ("items", "users")]
    fail(watch.table, others[0])
    watch.round()
    fail(others[1])
    watch.round()
    others[0].save()
    watch.round()
    assert told() == [("fired", 1, "mail"), ("fired", 2, "mail")]
    assert Alert.objects.get().summary == "2 tables have failed: shop.orders, shop.users"


def test_lag_must_last_before_it_fires(watch: Watch) -> None:
    watch.round(14 * 60, read=False)
    assert not Alert.objects.filter(rule__kind="lag").exists()
    watch.round(90, read=False)
    assert [alert.fired_at for alert in Alert.objects.filter(rule__kind="lag")] == [None]
    watch.round(120, read=False)
    assert "lag" in {alert.rule.kind for alert in watch.open}
    lag = Alert.objects.get(rule__kind="lag")
    assert lag.summary == "The target is 17 min 30 s behind the source"
    for _ in range(3):
        watch.round()
    assert Alert.objects.get(rule__kind="lag").cleared_at is not None


def test_what_was_over_before_it_fired_is_forgotten(watch: Watch) -> None:
    watch.round(16 * 60, read=False)
    assert Alert.objects.filter(rule__kind="lag", fired_at=None).exists()
    for _ in range(3):
        watch.round()
    assert not Alert.objects.filter(rule__kind="lag").exists()


def test_late_changes_burn_the_budget_and_few_wake_nobody(watch: Watch) -> None:
    def late(number: int) -> None:
        lags = Lags()
        lags.histogram.add_one(timedelta(seconds=400), number)
        add(watch.table, {watch.now: lags})

    late(9)
    watch.round()
    assert watch.open == []
    late(3)
    watch.round()
    [alert] = watch.open
    assert (alert.rule.kind, alert.severity) == ("slo_burn", "critical")
    assert "99 % within 5 min" in alert.summary
    assert "12 late changes in 1h" in alert.summary
    watch.round(6 * 60)  # the short window of five minutes has passed
    assert [alert.severity for alert in watch.open] == ["warning"]
    watch.round(30 * 60)
    assert watch.open == []


def test_a_source_that_is_not_read_burns_the_budget(watch: Watch) -> None:
    watch.round(5 * 60 + 12 * 60, read=False)
    assert "slo_burn" in {alert.rule.kind for alert in watch.open}


def test_a_replicator_that_gave_up_or_fails_for_long_fires_and_a_paused_one_does_not(watch: Watch) -> None:
    failing = {"error_code": "source_unreachable", "error_message": "No answer.", "error_remedy": "Start the server."}
    watch.set(status=Status.RETRYING, first_failure_at=START, **failing)
    watch.round(9 * 60)
    assert watch.open == []
    watch.round(60)
    [alert] = watch.open
    assert (alert.summary, alert.severity) == ("It has been failing for 10 min: No answer.", "warning")
    watch.set(status=Status.FAILED)
    watch.round()
    [alert] = watch.open
    assert (alert.summary, alert.severity) == ("It has stopped: No answer.", "critical")
    assert alert.detail["remedy"] == "Start the server."
    watch.set(status=Status.PAUSED, desired=Desired.PAUSED)
    for _ in range(2):
        watch.round(3600, read=False)
    assert watch.open == []


def test_a_log_that_is_kept_or_lost_fires_also_while_paused(watch: Watch) -> None:
    watch.set(status=Status.PAUSED, desired=Desired.PAUSED, log_concern="large", log_held_bytes=9, log_held_at=START)
    watch.round()
    assert [alert.rule.kind for alert in watch.open] == ["log_kept"]
    watch.set(log_concern="lost")
    watch.round()
    assert (watch.open[0].severity, watch.open[0].round) == ("critical", 2)


def test_dead_letter_rows_fire_until_somebody_has_decided(watch: Watch, email: Channel) -> None:
    watch.tell("dead_letter_rows", email)
    other = make_table(watch.replicator, "items")
    ReplicatorTable.objects.filter(pk=watch.table.pk).update(dead_letters=2)
    assert watch.round() == 1
    assert [alert.summary for alert in watch.open] == ["2 dead-letter rows: shop.orders"]
    ReplicatorTable.objects.filter(pk=watch.table.pk).update(dead_letters=5)
    assert watch.round() == 0
    ReplicatorTable.objects.filter(pk=other.pk).update(dead_letters=1)
    assert watch.round() == 1
    assert [alert.summary for alert in watch.open] == ["6 dead-letter rows: shop.items, shop.orders"]
    ReplicatorTable.objects.update(dead_letters=0)
    for _ in range(3):
        watch.round()
    assert watch.open == []


def test_a_snoozed_rule_tells_nobody_until_its_snooze_ends(watch: Watch, email: Channel) -> None:
    rule = watch.tell("table_failed", email)
    Rule.objects.filter(pk=rule.pk).update(snoozed_until=watch.now + timedelta(minutes=10))
    fail(watch.table)
    assert watch.round() == 0
    assert len(watch.open) == 1
    assert watch.round(600) == 1
    assert told() == [("fired", 1, "mail")]


def test_what_ended_while_it_was_snoozed_is_never_told(watch: Watch, email: Channel) -> None:
    rule = watch.tell("table_failed", email)
    Rule.objects.filter(pk=rule.pk).update(snoozed_until=watch.now + timedelta(minutes=10))
    fail(watch.table)
    watch.round()
    watch.table.save()
    for _ in range(3):
        watch.round(300)
    assert (watch.open, told()) == ([], [])
    assert Alert.objects.get().cleared_at is not None


def test_a_rule_that_is_switched_off_clears_what_it_fired(watch: Watch, email: Channel) -> None:
    watch.tell("table_failed", email)
    fail(watch.table)
    watch.round()
    services.save_rule(replicator=watch.replicator, kind="table_failed", enabled=False)
    watch.round()
    assert (watch.open, told()) == ([], [("fired", 1, "mail"), ("cleared", 1, "mail")])


def test_the_number_of_queries_does_not_depend_on_how_much_there_is(
    watch: Watch, email: Channel, django_assert_max_num_queries: Any
) -> None:
    def more(names: list[str]) -> None:
        for name in names:
            one = make_replicator(make_connection(name), name, source_ts=watch.now)
            fail(*(make_table(one, f"t{number}") for number in range(6)))
        evaluate(watch.now)  # makes rules
        for rule in Rule.objects.filter(kind="table_failed"):
            rule.channels.add(email)

    more(["a"])
    with django_assert_max_num_queries(24):
        watch.round()
    more([f"b{number}" for number in range(12)])
    with django_assert_max_num_queries(24):
        watch.round()
    assert len(watch.open) == 13
    with django_assert_max_num_queries(24):
        watch.round()
