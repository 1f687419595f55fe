"""Alerts over all replicators, their channels, and a replicator's rules."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from replicator.errors import ConfigurationError
from webapp.alerts import selectors, services
from webapp.alerts.forms import SNOOZES, ChannelForm, RuleLine, quiet_context
from webapp.alerts.models import Channel, Rule
from webapp.replicators.selectors import list_replicators
from webapp.web.edit_conflicts import refuse_if_changed
from webapp.web.paging import Pager, page_number
from webapp.web.responses import done, is_htmx, user_of

PER_PAGE = 50
UNKNOWN_TIME = "Select one of the listed durations."


@login_required
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Those that fire, then the history."""
    asked = request.GET.get("replicator", "")
    only = int(asked) if asked.isdigit() and len(asked) < 10 else None  # noqa: PLR2004 - a number that the database knows
    firing = request.GET.get("show") == "firing"
    found = selectors.alerts(replicator=only, firing=firing)
    total = found.count()
    number = min(page_number(request.GET), max(1, -(-total // PER_PAGE)))
    pager = Pager(number, PER_PAGE, total, request.path, request.GET, "#alerts-live")
    context = {
        "alerts": found[pager.first - 1 : pager.first - 1 + PER_PAGE],
        "pager": pager,
        "only": list_replicators().filter(pk=only).first() if only else None,
        "firing": firing,
        "snoozes": SNOOZES,
        "now": timezone.now(),
        "section": "alerts",
    }
    return render(request, "alerts/index_live.html" if is_htmx(request) else "alerts/index.html", context)


@login_required
@require_POST
def snooze(request: HttpRequest, pk: int) -> HttpResponse:
    """One rule, for some hours; 0 ends its snooze."""
    rule = get_object_or_404(Rule.objects.select_related("replicator"), pk=pk)
    hours = _hours(request)
    if hours is None:
        return done(request, UNKNOWN_TIME, level="error", to=reverse("alerts:index"))
    services.snooze(rule=rule, until=_until(hours), user=user_of(request))
    said = f"Notifications muted for {dict(SNOOZES)[hours]}." if hours else "Notifications resumed."
    return done(request, said, to=reverse("alerts:index"))


def _hours(request: HttpRequest) -> int | None:
    """One of those offered, 0 to wake; None for any other."""
    hours = request.POST.get("hours", "")
    return int(hours) if hours in {"0", *(str(number) for number, _ in SNOOZES)} else None


def _until(hours: int) -> datetime | None:
    return timezone.now() + timedelta(hours=hours) if hours else None


@login_required
def quiet(request: HttpRequest, pk: int) -> HttpResponse:
    """Which rules of a replicator are snoozed; a POST snoozes all of them or ends that."""
    replicator = get_object_or_404(list_replicators(), pk=pk)
    back = settings_page(pk, "quiet")
    if request.method != "POST":
        return (
            render(request, "alerts/quiet_live.html", quiet_context(replicator)) if is_htmx(request) else redirect(back)
        )
    hours = _hours(request)
    if hours is None:
        return done(request, UNKNOWN_TIME, level="error", to=back)
    services.snooze_all(replicator=replicator, until=_until(hours), user=user_of(request))
    said = f"Notifications muted for {dict(SNOOZES)[hours]}." if hours else "Notifications resumed."
    return done(request, f"{replicator.name}: {said}", to=back)


@login_required
@require_POST
def test_rules(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test message to every channel that a replicator's rules tell."""
    replicator = get_object_or_404(list_replicators(), pk=pk)
    back, tried = settings_page(pk, "alerts"), services.try_rules(replicator=replicator)
    if not tried:
        return done(request, "No rule has a channel. Select a channel and save first.", level="error", to=back)
    if failed := {name: error for name, error in tried.items() if error}:
        said = " ".join(f"{name}: {error}" for name, error in failed.items())
        return done(request, f"The test message could not be sent to all channels. {said}", level="error", to=back)
    return done(request, f"The test message was sent to {', '.join(tried)}.", to=back)


test_rules.__test__ = False  # type: ignore[attr-defined]  # as `test` below


def settings_page(pk: int, part: str) -> str:
    """Of a replicator, at one of its cards."""
    return f"{reverse('replicators:settings', args=[pk])}#{part}"


@login_required
def channels(request: HttpRequest) -> HttpResponse:
    """List, and make a new one."""
    form = ChannelForm(request.POST or None)
    if request.method == "POST" and form.is_valid() and (made := form.save()):
        messages.success(request, f"Channel {made.name} saved. Send a test message to check it.")
        return redirect("alerts:channel", pk=made.pk)
    context = {"form": form, "channels": list(selectors.channels()), "section": "alerts"}
    return render(request, "alerts/channels.html", context)


@login_required
def channel(request: HttpRequest, pk: int) -> HttpResponse:
    """Change one."""
    one = get_object_or_404(Channel, pk=pk)
    form = ChannelForm(request.POST or None, channel=one)
    if request.method == "POST" and form.is_valid() and form.save():
        messages.success(request, f"Channel {one.name} saved.")
        return redirect("alerts:channel", pk=pk)
    rules = one.rules.select_related("replicator").order_by("replicator__name")
    return render(request, "alerts/channel.html", {"form": form, "channel": one, "rules": rules, "section": "alerts"})


@login_required
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete the channel and its queued messages."""
    one = get_object_or_404(Channel, pk=pk)
    services.delete_channel(channel=one)
    messages.success(request, f"Channel {one.name} deleted.")
    return redirect("alerts:channels")


@login_required
@require_POST
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test message now."""
    one = get_object_or_404(Channel, pk=pk)
    back = reverse("alerts:channel", args=[pk])
    if error := services.try_channel(channel=one):
        return done(request, f"The test message was not sent. {error}", level="error", to=back)
    return done(request, f"The test message was sent to {one.destination}.", to=back)


test.__test__ = False  # type: ignore[attr-defined]  # not a test, though pytest takes the name for one


@login_required
@require_POST
def save_rules(request: HttpRequest, pk: int) -> HttpResponse:
    """All rules of a replicator, from its settings page: all or nothing."""
    replicator = get_object_or_404(list_replicators(), pk=pk)
    known = list(selectors.channels())
    try:
        refuse_if_changed(request, selectors.as_stored(selectors.rules_of(replicator)))
        with transaction.atomic():
            for rule in selectors.rules_of(replicator):
                change = RuleLine(rule, known).change(request.POST)
                services.save_rule(replicator=replicator, kind=rule.kind, user=user_of(request), **change)
    except ConfigurationError as error:
        messages.error(request, f"Alerts not saved. {error.message}")
    else:
        messages.success(request, "Alerts saved.")
    return redirect(settings_page(pk, "alerts"))
