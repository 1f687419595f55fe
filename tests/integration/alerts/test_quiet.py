"""A whole replicator is snoozed and woken, and its rules' channels are tried, from the page and by the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from tests.integration.alerts.conftest import Receiver, Watch
from webapp.accounts import services as accounts
from webapp.alerts import services
from webapp.alerts.models import Channel, Rule, RuleKind
from webapp.monitoring.models import TimelineEvent
from webapp.replicators.models import ReplicatorTable

pytestmark = pytest.mark.django_db
HTMX = {"HTTP_HX_REQUEST": "true"}


@pytest.fixture
def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def api(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {accounts.create_token(user=user, name='tests')}")
    return client


def asleep() -> set[str]:
    return set(Rule.objects.filter(snoozed_until__gt=timezone.now()).values_list("kind", flat=True))


def test_all_rules_of_a_replicator_are_snoozed_from_its_settings_and_tell_nobody(
    browser: Client, watch: Watch, email: Channel
) -> None:
    watch.tell("table_failed", email)
    quiet = reverse("alerts:quiet", args=[watch.replicator.pk])
    assert browser.post(quiet, {"hours": "8"}, **HTMX).status_code == 204
    assert asleep() == set(RuleKind.values)
    assert TimelineEvent.objects.filter(kind="alert_snoozed", summary="All alerts snoozed").exists()
    shown = browser.get(quiet, **HTMX).content.decode()
    assert (shown.count("Snoozed, ends"), "End all snoozes" in shown) == (len(RuleKind.values), True)
    ReplicatorTable.objects.update(state="failed")
    watch.now = timezone.now()
    assert watch.round(30) == 0
    one = watch.rule("table_failed")
    browser.post(reverse("alerts:snooze", args=[one.pk]), {"hours": "0"}, **HTMX)
    assert asleep() == set(RuleKind.values) - {"table_failed"}
    assert watch.round(30) == 1
    browser.post(quiet, {"hours": "0"}, **HTMX)
    assert asleep() == set()
    assert "Snoozed, ends" not in browser.get(quiet, **HTMX).content.decode()


def test_a_viewer_is_shown_no_snooze_menu(browser: Client, watch: Watch) -> None:
    quiet = reverse("alerts:quiet", args=[watch.replicator.pk])
    viewer = Client()
    viewer.force_login(User.objects.create_user("viewer"))
    menus = [one.get(quiet, **HTMX).content.decode().count("<details") for one in (browser, viewer)]
    assert menus == [1 + len(RuleKind.values), 0]


def test_other_times_other_people_and_other_replicators_are_left_alone(browser: Client, watch: Watch) -> None:
    quiet = reverse("alerts:quiet", args=[watch.replicator.pk])
    for hours in ("9999", "-1", "", "1 hour"):
        browser.post(quiet, {"hours": hours}, **HTMX)
    assert browser.get(quiet)["Location"].endswith("/settings/#quiet")
    assert browser.post(reverse("alerts:quiet", args=[watch.replicator.pk + 1]), {"hours": "1"}).status_code == 404
    for path in (quiet, reverse("alerts:test_rules", args=[watch.replicator.pk])):
        assert Client().post(path, {"hours": "1"})["Location"].startswith("/login/")
    assert asleep() == set()


def test_every_channel_that_a_rule_tells_gets_one_test_message(
    browser: Client, watch: Watch, webhook: Channel, email: Channel, receiver: Receiver, mailoutbox: list[Any]
) -> None:
    test = reverse("alerts:test_rules", args=[watch.replicator.pk])
    assert "Select a channel" in browser.post(test, **HTMX)["HX-Trigger"]
    services.save_channel(name="unused", kind="webhook", url=receiver.url)
    watch.tell("lag", webhook, email)
    watch.tell("stopped", webhook)
    assert "sent to hook, mail" in browser.post(test, **HTMX)["HX-Trigger"]
    [(_, body, _)] = receiver.got
    assert (body["event"], body["replicator"]) == ("test", {"id": watch.replicator.pk, "name": "shop"})
    assert [mail.to for mail in mailoutbox] == [["ada@example.com"]]
    receiver.status = 500
    said = browser.post(test, **HTMX)["HX-Trigger"]
    assert "hook: The server answered with HTTP 500." in said
    assert "mail" not in said
    Rule.objects.update(enabled=False)
    assert "Select a channel" in browser.post(test, **HTMX)["HX-Trigger"]


def test_the_api_snoozes_and_tries_too(api: APIClient, watch: Watch, webhook: Channel, receiver: Receiver) -> None:
    rules = f"/api/v1/replicators/{watch.replicator.pk}/alert-rules/"
    until = timezone.now() + timedelta(hours=3)
    answer = api.post(f"{rules}snooze/", {"until": until.isoformat()}, format="json")
    assert {rule["snoozed_until"] for rule in answer.json()} == {until.isoformat().replace("+00:00", "Z")}
    assert asleep() == set(RuleKind.values)
    for wrong in ({}, {"until": "tomorrow"}, {"until": (until + timedelta(days=40)).isoformat()}):
        assert api.post(f"{rules}snooze/", wrong, format="json").status_code == 400
    api.post(f"{rules}snooze/", {"until": None}, format="json")
    assert asleep() == set()
    watch.tell("lag", webhook)
    assert api.post(f"{rules}test/").json() == [{"channel": "hook", "ok": True, "error": ""}]
    assert receiver.events == ["test"]
