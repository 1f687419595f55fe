"""Reading alerts."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, F, QuerySet

from webapp.alerts.evaluation import make_rules
from webapp.alerts.models import Alert, Channel, Rule
from webapp.replicators.models import Replicator


def alerts(*, replicator: int | None = None, firing: bool = False) -> QuerySet[Alert]:
    """Fired ones: those that fire first, then the newest."""
    found = Alert.objects.filter(fired_at__isnull=False).select_related("rule", "replicator")
    if replicator is not None:
        found = found.filter(replicator=replicator)
    if firing:
        found = found.filter(cleared_at=None)
    return found.order_by(F("cleared_at").desc(nulls_first=True), "-fired_at", "-id")


def firing(replicator: Replicator) -> list[Alert]:
    """Now; at most one of each rule."""
    return list(alerts(replicator=replicator.pk, firing=True))


def firing_by_replicator() -> dict[int, int]:
    """How many alerts of each replicator fire now; one query."""
    found = Alert.objects.filter(fired_at__isnull=False, cleared_at=None).order_by()
    return dict(found.values_list("replicator_id").annotate(Count("pk")))


def rules_of(replicator: Replicator) -> list[Rule]:
    """One of each kind, with channels."""
    make_rules([replicator])
    return list(Rule.objects.filter(replicator=replicator).prefetch_related("channels").order_by("id"))


def as_stored(rules: Iterable[Rule]) -> list[object]:
    """What of them a person changes; without who sleeps until when."""
    return [[rule.kind, rule.params, rule.enabled, sorted(one.pk for one in rule.channels.all())] for rule in rules]


def channels() -> QuerySet[Channel]:
    """By name."""
    return Channel.objects.all()
