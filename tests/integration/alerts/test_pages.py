"""The alert pages and the API, without a browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from tests.integration.alerts.conftest import TOKEN, Receiver, Watch
from tests.pages import page_text
from webapp.accounts import services as accounts
from webapp.alerts.models import Alert, Channel
from webapp.monitoring.models import TableObjective
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


def text(response: Any) -> str:
    assert response.status_code == 200
    return page_text(response)


def fired(watch: Watch) -> Alert:
    ReplicatorTable.objects.filter(pk=watch.table.pk).update(state="failed")
    watch.now = timezone.now()
    watch.round(0)
    return Alert.objects.get(rule__kind="table_failed")


def test_without_signing_in_nothing_is_shown_or_done(watch: Watch, webhook: Channel) -> None:
    rule = watch.rule("lag").pk
    for name, arguments in (("index", []), ("channels", []), ("channel", [webhook.pk])):
        assert Client().get(reverse(f"alerts:{name}", args=arguments))["Location"].startswith("/login/")
    for name, pk in (
        ("snooze", rule),
        ("delete", webhook.pk),
        ("test", webhook.pk),
        ("save_rules", watch.replicator.pk),
    ):
        assert Client().post(reverse(f"alerts:{name}", args=[pk]))["Location"].startswith("/login/")
    assert Client().post(reverse("monitoring:objective", args=[watch.replicator.pk]))["Location"].startswith("/login/")


def test_alerts_are_listed_snoozed_and_woken(browser: Client, watch: Watch, django_assert_max_num_queries: Any) -> None:
    alert = fired(watch)
    with django_assert_max_num_queries(5):
        page = text(browser.get(reverse("alerts:index"), **HTMX))
    assert "1 table has failed: shop.orders" in page
    snooze = reverse("alerts:snooze", args=[alert.rule_id])
    assert browser.post(snooze, {"hours": "8"}, **HTMX).status_code == 204
    asleep = watch.rule("table_failed").snoozed_until
    assert asleep is not None
    assert timedelta(hours=7) < asleep - timezone.now() <= timedelta(hours=8)
    assert "End snooze" in text(browser.get(reverse("alerts:index")))
    browser.post(snooze, {"hours": "0"}, **HTMX)
    assert watch.rule("table_failed").snoozed_until is None
    browser.post(snooze, {"hours": "9999"}, **HTMX)
    assert watch.rule("table_failed").snoozed_until is None
    for name in ("replicators:head", "replicators:overview"):
        assert browser.get(reverse(name, args=[watch.replicator.pk]), **HTMX).status_code == 200
    assert "1 alert<span" in text(browser.get(reverse("replicators:fleet_rows"), **HTMX))


def test_channels_are_made_tested_and_deleted_and_their_address_never_comes_back(
    browser: Client, receiver: Receiver, user: User
) -> None:
    made = browser.post(reverse("alerts:channels"), {"name": "hook", "kind": "webhook", "url": receiver.url})
    one = Channel.objects.get()
    assert made["Location"] == reverse("alerts:channel", args=[one.pk])
    assert TOKEN not in text(browser.get(made["Location"]))
    assert TOKEN not in text(browser.post(made["Location"], {"name": "", "kind": "webhook", "url": receiver.url}))
    assert browser.post(made["Location"], {"name": "renamed", "kind": "webhook"}).status_code == 302
    browser.post(reverse("alerts:test", args=[one.pk]))
    assert receiver.events == ["test"]
    refused = browser.post(
        reverse("alerts:channels"), {"name": "renamed", "kind": "email", "recipients": "a@b.example"}
    )
    assert "There is already a channel named renamed." in text(refused)
    browser.post(reverse("alerts:delete", args=[one.pk]))
    assert not Channel.objects.exists()


def test_rules_are_changed_on_the_settings_page_all_or_none(browser: Client, watch: Watch, webhook: Channel) -> None:
    settings = reverse("replicators:settings", args=[watch.replicator.pk])
    assert "Lag: target too far behind" in text(browser.get(settings))
    save = reverse("alerts:save_rules", args=[watch.replicator.pk])
    good = {"slo_burn-least_late": "5", "lag-minutes": "3.5", "lag-hold_minutes": "0", "stopped-retrying_minutes": "1"}
    good |= {"lag-enabled": "on", "lag-channels": [str(webhook.pk)]}
    assert browser.post(save, good)["Location"] == f"{settings}#alerts"
    lag = watch.rule("lag")
    assert (lag.enabled, lag.params, list(lag.channels.all())) == (True, {"minutes": 3.5, "hold_minutes": 0}, [webhook])
    assert not watch.rule("stopped").enabled
    for wrong in ({"lag-minutes": "many"}, {"lag-minutes": "-1"}, {"lag-channels": ["999999"]}, {"lag-minutes": "nan"}):
        browser.post(save, good | {"slo_burn-least_late": "77"} | wrong)
        assert watch.rule("slo_burn").params == {"least_late": 5}


def test_a_table_gets_a_objective_of_its_own_and_loses_it(browser: Client, watch: Watch) -> None:
    save = reverse("monitoring:objective", args=[watch.replicator.pk])
    for wrong in ({"percent": "99", "minutes": "2.01"}, {"percent": "0", "minutes": "2"}, {"percent": "99"}):
        browser.post(save, {"table": watch.table.pk} | wrong)
        assert not TableObjective.objects.filter(percent__isnull=False).exists()
    browser.post(save, {"table": watch.table.pk, "percent": "99.9", "minutes": "0.5"})
    assert TableObjective.objects.get().seconds == 30
    watch.now = timezone.now()
    watch.round(0)
    overview = text(browser.get(reverse("replicators:overview", args=[watch.replicator.pk]), **HTMX))
    assert "99.9 % within 30 s" in overview
    browser.post(save, {"table": watch.table.pk})
    assert TableObjective.objects.get().percent is None
    other = make_other_table()
    browser.post(save, {"table": other.pk, "percent": "99", "minutes": "1"})
    assert not TableObjective.objects.filter(table=other).exists()


def make_other_table() -> ReplicatorTable:
    from tests.browser.factories import make_connection, make_replicator, make_table

    return make_table(make_replicator(make_connection("x"), "other"), "t")


def test_the_api_does_what_the_pages_do(api: APIClient, watch: Watch, receiver: Receiver) -> None:
    body = {"name": "hook", "kind": "webhook", "url": receiver.url, "key": "k3y"}
    made = api.post("/api/v1/alert-channels/", body, format="json")
    assert made.status_code == 201
    channel = made.json()["id"]
    assert (TOKEN in made.content.decode(), made.json()["destination"]) == (False, "127.0.0.1")
    assert api.post(f"/api/v1/alert-channels/{channel}/test/").json() == {"ok": True, "error": ""}
    renamed = api.put(f"/api/v1/alert-channels/{channel}/", {"name": "other", "kind": "webhook"}, format="json")
    assert renamed.json()["name"] == "other"
    rules = f"/api/v1/replicators/{watch.replicator.pk}/alert-rules/"
    assert len(api.get(rules).json()) == 6
    change = {"params": {"minutes": 1}, "channels": [channel], "snoozed_until": "2026-01-01T00:00:00Z"}
    changed = api.patch(f"{rules}lag/", change, format="json").json()
    assert (changed["params"], changed["channels"]) == ({"minutes": 1.0, "hold_minutes": 2}, [channel])
    assert api.patch(f"{rules}nothing/", {}, format="json").status_code == 400
    assert api.patch(f"{rules}lag/", {"params": {"minutes": 1e9}}, format="json").status_code == 400
    alert = fired(watch)
    [listed] = api.get("/api/v1/alerts/", {"firing": "true", "replicator": watch.replicator.pk}).json()["results"]
    assert (listed["id"], listed["kind"], listed["cleared_at"]) == (alert.pk, "table_failed", None)
    assert api.delete(f"/api/v1/alert-channels/{channel}/").status_code == 204
    assert api.get("/api/v1/alert-channels/").json()["count"] == 0
