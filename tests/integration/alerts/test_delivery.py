"""Messages reach their channel once, in order, again after a failure, and hold no secret."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.utils import timezone

from replicator.errors import ConfigurationError
from tests.integration.alerts.conftest import TOKEN, Receiver, Watch
from webapp.alerts import services
from webapp.alerts.delivery import deliver_due, due
from webapp.alerts.models import Channel, Delivery
from webapp.replicators.models import ReplicatorTable

pytestmark = pytest.mark.django_db


def fire(watch: Watch, *channels: Channel) -> None:
    """As of now: deliveries go by the database's clock."""
    watch.tell("table_failed", *channels)
    ReplicatorTable.objects.update(state="failed")
    watch.now = timezone.now() - timedelta(seconds=31)
    watch.round()


def clear(watch: Watch) -> None:
    watch.table.save()
    watch.round(90)
    Delivery.objects.filter(event="cleared").update(next_at=timezone.now())


def again() -> None:
    """The pause after a failure is over."""
    Delivery.objects.filter(state="pending").update(next_at=timezone.now())


def test_a_webhook_is_signed_and_says_what_fired_and_cleared(
    watch: Watch, webhook: Channel, receiver: Receiver, settings: Any
) -> None:
    settings.TIDEMARK_URL = "https://tidemark.example.com"
    fire(watch, webhook)
    assert due()
    assert deliver_due() == 1
    clear(watch)
    assert (deliver_due(), deliver_due(), due()) == (1, 0, False)
    (headers, fired, raw), (_, cleared, _) = receiver.got
    signature = hmac.new(b"signing-k3y", raw, hashlib.sha256).hexdigest()
    assert headers["X-Tidemark-Signature"] == f"sha256={signature}"
    assert (fired["event"], fired["kind"], fired["severity"]) == ("fired", "table_failed", "critical")
    assert fired["replicator"] == {"id": watch.replicator.pk, "name": "shop"}
    assert fired["summary"] == "1 table has failed: shop.orders"
    assert fired["url"] == f"https://tidemark.example.com/replicators/{watch.replicator.pk}/"
    assert (cleared["event"], fired["cleared_at"]) == ("cleared", None)
    assert cleared["cleared_at"] > fired["fired_at"]
    assert fired["id"] != cleared["id"]


def test_a_failed_attempt_is_made_again_later_and_the_order_stays(
    watch: Watch, webhook: Channel, receiver: Receiver
) -> None:
    receiver.status = 503
    fire(watch, webhook)
    assert deliver_due() == 0
    delivery = Delivery.objects.get()
    assert (delivery.state, delivery.attempts) == ("pending", 1)
    assert delivery.next_at > timezone.now() + timedelta(seconds=5)
    assert "503" in Channel.objects.get().last_error
    clear(watch)
    assert deliver_due() == 0  # "cleared" is not sent before "fired"
    receiver.status = 200
    again()
    assert deliver_due() == 2
    assert receiver.events == ["fired", "fired", "cleared"]
    assert receiver.got[0][1]["id"] == receiver.got[1][1]["id"]
    assert Channel.objects.get().last_error == ""


def test_what_cannot_be_sent_at_all_is_given_up_and_holds_up_nobody(
    watch: Watch, webhook: Channel, email: Channel, receiver: Receiver, mailoutbox: list[EmailMessage]
) -> None:
    receiver.status = 404
    fire(watch, webhook, email)
    assert deliver_due() == 1
    assert sorted(Delivery.objects.values_list("state", flat=True)) == ["given up", "sent"]
    assert len(mailoutbox) == 1


def test_after_many_attempts_it_is_given_up(watch: Watch, webhook: Channel, receiver: Receiver) -> None:
    receiver.status = 500
    fire(watch, webhook)
    for _ in range(12):
        again()
        deliver_due()
    assert (Delivery.objects.get().state, Delivery.objects.get().attempts) == ("given up", 9)


def test_a_claim_of_a_worker_that_died_is_taken_over(watch: Watch, webhook: Channel, receiver: Receiver) -> None:
    fire(watch, webhook)
    from webapp.alerts.delivery import _claim

    assert _claim() is not None
    assert deliver_due() == 0
    again()
    assert deliver_due() == 1


def test_an_e_mail_says_it_all_and_a_line_break_in_a_name_makes_no_header(
    watch: Watch, email: Channel, mailoutbox: list[EmailMessage]
) -> None:
    watch.set(name="shop\nBcc: eve@example.com")
    fire(watch, email)
    assert deliver_due() == 1
    [mail] = mailoutbox
    assert mail.to == ["ada@example.com"]
    assert mail.subject.startswith("[Tidemark] critical: shop Bcc: eve@example.com: 1 table has failed")
    assert "Fired: " in mail.body
    assert mail.bcc == []


def test_slack_gets_its_form_with_nothing_that_could_be_a_mention(watch: Watch, receiver: Receiver) -> None:
    slack = services.save_channel(name="s", kind="slack", url=receiver.url)
    ReplicatorTable.objects.update(name="<!channel>")
    fire(watch, slack)
    assert deliver_due() == 1
    [(headers, body, _)] = receiver.got
    assert "&lt;!channel&gt;" in body["attachments"][0]["text"]
    assert "<!channel>" not in str(body)
    assert "X-Tidemark-Signature" not in headers


def test_without_a_mail_server_the_test_says_so(email: Channel, settings: Any) -> None:
    settings.EMAIL_BACKEND, settings.EMAIL_HOST = "django.core.mail.backends.smtp.EmailBackend", ""
    assert "EMAIL_URL" in services.try_channel(channel=email)


def test_a_test_message_is_sent_at_once_and_refused_addresses_are_told_without_themselves(
    webhook: Channel, receiver: Receiver, settings: Any
) -> None:
    assert services.try_channel(channel=webhook) == ""
    assert receiver.events == ["test"]
    settings.TIDEMARK_ALERT_NETWORKS = ()
    error = services.try_channel(channel=webhook)
    assert "TIDEMARK_ALERT_NETWORKS" in error
    assert TOKEN not in error
    assert len(receiver.got) == 1


def test_addresses_and_keys_are_stored_encrypted(webhook: Channel) -> None:
    row = Channel.objects.filter(pk=webhook.pk).values().get()
    assert row["config"] == {"host": "127.0.0.1"}
    assert TOKEN not in str(row)
    assert "signing-k3y" not in str(row)
    kept = services.save_channel(channel=webhook, name="renamed", kind="webhook")
    assert services.try_channel(channel=kept) == ""


def test_another_secret_key_is_told(webhook: Channel, settings: Any, tmp_path: Any) -> None:
    settings.SECRET_KEY, settings.TIDEMARK_HOME = "another", tmp_path
    assert "TIDEMARK_SECRET_KEY" in services.try_channel(channel=webhook)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "}, {"kind": "pigeon"}, {"kind": "email"}, {"kind": "email", "recipients": ["nobody"]},
        {"kind": "email", "recipients": ["a@example.com\nBcc: b@example.com"]}, {"url": ""}, {"url": "ftp://x/"},
        {"url": "https://user:pw@example.com/"}, {"name": "mail"},
    ],
)  # fmt: skip
def test_what_cannot_be_a_channel_is_refused(email: Channel, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        services.save_channel(**({"name": "n", "kind": "webhook", "url": "https://example.com/x"} | wrong))
    assert Channel.objects.count() == 1
