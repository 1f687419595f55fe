"""One round: every rule of every replicator is looked at, alerts fire and clear, messages are queued.

The number of queries does not depend on how many replicators, tables, rules or alerts there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from replicator.state.tables import TableState
from webapp.alerts import rules
from webapp.alerts.models import Alert, Delivery, Event, Rule, RuleKind
from webapp.alerts.rules import Facts, Finding
from webapp.database import clock, stored, without_nul
from webapp.monitoring.slo.attainment import Figures
from webapp.monitoring.slo.status import keep_standings
from webapp.replicators.models import Desired, Replicator, ReplicatorTable

LOCK = 0x7469_6465_0001  # one round at a time, in the whole installation
# What held for a moment only and came back was not over: an alert clears when it has not held for so long.
CALM = timedelta(seconds=60)
SUMMARY = 500
MAY_CHANGE = ("seen_at", "severity", "summary", "detail", "round", "fired_at", "cleared_at")


@stored
def evaluate(now: datetime | None = None) -> int:
    """Returns the number of messages that were queued; 0 also where another round is under way."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            if not cursor.fetchone()[0]:
                return 0
        return _round(now or clock())


def _round(now: datetime) -> int:
    replicators = list(Replicator.objects.exclude(desired=Desired.DELETED).select_related("connection", "destination"))
    make_rules(replicators)
    facts = _facts(replicators, now)
    watched = list(Rule.objects.filter(replicator__in=replicators).prefetch_related("channels"))
    opened = {alert.rule_id: alert for alert in Alert.objects.filter(cleared_at=None).select_for_update()}
    fresh: list[Alert] = []
    changed: list[Alert] = []
    forgotten: list[Alert] = []
    for rule in watched:
        params = rules.defaults(rule.kind) | rule.params
        finding = rules.LOOK[rule.kind](facts[rule.replicator_id], params) if rule.enabled else None
        alert = opened.get(rule.pk)
        if finding is not None:
            (changed if alert else fresh).append(_holds(alert, rule, finding, now))
        elif alert is not None and (now - alert.seen_at >= CALM or not rule.enabled):
            if alert.fired_at is None:
                forgotten.append(alert)
            else:
                alert.cleared_at = now
                changed.append(alert)
    Alert.objects.bulk_create(fresh)
    if changed:
        Alert.objects.bulk_update(changed, MAY_CHANGE)
    if forgotten:
        Alert.objects.filter(pk__in=[alert.pk for alert in forgotten]).delete()
    return _queue(watched, [*fresh, *changed, *_unchanged(opened, changed, forgotten)], now)


def make_rules(replicators: Sequence[Replicator]) -> None:
    """Give every replicator a rule of each kind; new rules notify no channel until a user chooses some."""
    there = set(Rule.objects.filter(replicator__in=replicators).values_list("replicator_id", "kind"))
    missing = [
        Rule(replicator=one, kind=kind, params=rules.defaults(kind))
        for one in replicators
        for kind in RuleKind.values
        if (one.pk, kind) not in there
    ]
    if missing:
        Rule.objects.bulk_create(missing, ignore_conflicts=True)


def _facts(replicators: Sequence[Replicator], now: datetime) -> dict[int, Facts]:
    measured = keep_standings(replicators, now)
    with_own = [table for _, table in measured if table is not None]
    failed: dict[int, list[str]] = {}
    dead_letters: dict[int, dict[str, int]] = {}
    names: dict[int, str] = {}
    wrong = Q(state=TableState.FAILED.value) | Q(dead_letters__gt=0)
    for row in ReplicatorTable.objects.filter(wrong, replicator__in=replicators).only(
        "replicator_id", "database", "name", "state", "dead_letters"
    ):
        if row.state == TableState.FAILED.value:
            failed.setdefault(row.replicator_id, []).append(str(row))
        if row.dead_letters:
            dead_letters.setdefault(row.replicator_id, {})[str(row)] = row.dead_letters
    if with_own:
        names = {row.pk: str(row) for row in ReplicatorTable.objects.filter(pk__in=with_own).only("database", "name")}
    figures: dict[int, dict[str, Figures]] = {one.pk: {} for one in replicators}
    for (replicator, table), one in measured.items():
        figures[replicator][names.get(table, "") if table else ""] = one
    return {
        one.pk: Facts(one, figures[one.pk], failed.get(one.pk, []), now, dead_letters.get(one.pk, {}))
        for one in replicators
    }


def _holds(alert: Alert | None, rule: Rule, finding: Finding, now: datetime) -> Alert:
    if alert is None:
        alert = Alert(rule=rule, replicator_id=rule.replicator_id, since=now)
    before = set(alert.detail.get("members", []))
    if alert.fired_at is not None and finding.members - before:
        alert.round += 1
    alert.seen_at = now
    alert.severity, alert.summary = finding.severity, without_nul(finding.summary)[:SUMMARY]
    alert.detail = without_nul(dict(finding.detail) | {"members": sorted(finding.members)})
    if alert.fired_at is None and now - alert.since >= finding.hold:
        alert.fired_at = now
    return alert


def _unchanged(opened: dict[int, Alert], changed: Sequence[Alert], forgotten: Sequence[Alert]) -> list[Alert]:
    """They do not hold, and are not over yet."""
    known = {alert.pk for alert in (*changed, *forgotten)}
    return [alert for alert in opened.values() if alert.pk not in known]


def _queue(watched: Iterable[Rule], alerts: Sequence[Alert], now: datetime) -> int:
    """Queue each round of an alert once for each channel, and its end only where its beginning was queued.

    A snoozed rule queues only ends; an alert that still holds afterwards is queued then.
    """
    of_rule = {rule.pk: rule for rule in watched}
    wanted: list[Delivery] = []
    ended = [alert for alert in alerts if alert.cleared_at is not None]
    for alert in alerts:
        rule = of_rule.get(alert.rule_id)
        if rule is None or not alert.firing or (rule.snoozed_until is not None and rule.snoozed_until > now):
            continue
        wanted += [_delivery(alert, channel.pk, Event.FIRED, now) for channel in rule.channels.all()]
    if ended:
        of_alert = {alert.pk: alert for alert in ended}
        notified = Delivery.objects.filter(alert__in=of_alert, event=Event.FIRED).values_list("alert_id", "channel_id")
        wanted += [
            _delivery(of_alert[alert], channel, Event.CLEARED, now) for alert, channel in notified.distinct().order_by()
        ]
    if not wanted:
        return 0
    known = set(
        Delivery.objects.filter(alert__in={one.alert_id for one in wanted}).values_list(
            "alert_id", "channel_id", "event", "round"
        )
    )
    fresh = [one for one in wanted if (one.alert_id, one.channel_id, str(one.event), one.round) not in known]
    Delivery.objects.bulk_create(fresh, ignore_conflicts=True)
    return len(fresh)


def _delivery(alert: Alert, channel_id: int, event: Event, now: datetime) -> Delivery:
    return Delivery(alert=alert, channel_id=channel_id, event=event, round=alert.round, next_at=now)
