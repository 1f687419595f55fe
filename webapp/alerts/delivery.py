"""Sending what is queued: each message by one worker at a time, again after a failure, in order within a channel and
alert.
"""

from __future__ import annotations

import logging
import smtplib
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Exists, OuterRef

from replicator.errors import ConfigurationError
from webapp.alerts.messages import Message, as_text, of_alert, request
from webapp.alerts.models import Channel, ChannelKind, Delivery, DeliveryState
from webapp.connections.secrets import unseal
from webapp.database import clock, stored
from webapp.web.outbound import NotSentError, post

LOGGER = logging.getLogger("tidemark.alerts")
ROUND_SECONDS = 20.0
CLAIM = timedelta(seconds=60)
# The waits between attempts; the delivery is abandoned when the attempt after the last one fails.
PAUSES = tuple(timedelta(seconds=seconds) for seconds in (10, 30, 60, 300, 900, 3600, 3600, 3600))
REASON = 300
SMTP_BACKEND = "django.core.mail.backends.smtp.EmailBackend"


@stored
def due() -> bool:
    """Is there anything to send now?"""
    return Delivery.objects.filter(state=DeliveryState.PENDING, next_at__lte=clock()).exists()


@stored
def deliver_due(seconds: float = ROUND_SECONDS) -> int:
    """Until nothing is due or the time is over; returns how many were sent."""
    deadline = time.monotonic() + seconds
    sent = 0
    while time.monotonic() < deadline and (delivery := _claim()) is not None:
        sent += _attempt(delivery)
    return sent


def _claim() -> Delivery | None:
    """Claim the next due delivery; if this worker dies, another one claims it after `CLAIM`."""
    now = clock()
    earlier = Delivery.objects.filter(
        alert=OuterRef("alert"), channel=OuterRef("channel"), id__lt=OuterRef("id"), state=DeliveryState.PENDING
    )
    due = Delivery.objects.filter(~Exists(earlier), state=DeliveryState.PENDING, next_at__lte=now)
    with transaction.atomic():
        found = due.order_by("next_at", "id").select_for_update(skip_locked=True, of=("self",)).first()
        if found is None:
            return None
        found.attempts += 1
        found.next_at = now + CLAIM
        found.save(update_fields=["attempts", "next_at"])
    related = Delivery.objects.select_related("channel", "alert__rule", "alert__replicator")
    return related.filter(pk=found.pk).first()


def _attempt(delivery: Delivery) -> bool:
    try:
        send(delivery.channel, of_alert(delivery.alert, delivery.event, delivery.pk))
    except NotSentError as error:
        _not_sent(delivery, error)
        return False
    except Exception:  # no failure of one message holds up the others
        LOGGER.exception("Sending to %s failed", delivery.channel.name)
        _not_sent(delivery, NotSentError("Unexpected error; see the log of the control worker."))
        return False
    done = {"state": DeliveryState.SENT, "sent_at": clock(), "error": ""}
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts).update(**done)
    return True


def _not_sent(delivery: Delivery, error: NotSentError) -> None:
    over = error.lasting or delivery.attempts > len(PAUSES)
    change: dict[str, object] = {"error": error.reason[:REASON]}
    if over:
        change["state"] = DeliveryState.GIVEN_UP
        LOGGER.error("The alert could not be sent to %s: %s", delivery.channel.name, error.reason)
    else:
        change["next_at"] = clock() + PAUSES[delivery.attempts - 1]
    Delivery.objects.filter(pk=delivery.pk, attempts=delivery.attempts).update(**change)


def send(channel: Channel, message: Message) -> None:
    """Once, now; the channel remembers how it went.  Raises NotSentError."""
    try:
        _send(channel, message)
    except NotSentError as error:
        Channel.objects.filter(pk=channel.pk).update(last_error=error.reason[:REASON], last_error_at=clock())
        raise
    now: datetime = clock()
    Channel.objects.filter(pk=channel.pk).update(last_sent_at=now, last_error="", last_error_at=None)


def _send(channel: Channel, message: Message) -> None:
    if channel.kind == ChannelKind.EMAIL:
        _mail(channel, message)
        return
    try:
        hidden = unseal(channel.secrets)
    except ConfigurationError:
        reason = "The address cannot be decrypted because TIDEMARK_SECRET_KEY has changed. Enter the address again."
        raise NotSentError(reason, lasting=True) from None
    body, headers = request(channel.kind, message, hidden.get("key", ""))
    post(hidden.get("url", ""), body, headers, also=settings.TIDEMARK_ALERT_NETWORKS)


def _mail(channel: Channel, message: Message) -> None:
    if settings.EMAIL_BACKEND == SMTP_BACKEND and not settings.EMAIL_HOST:
        raise NotSentError("No mail server is configured. Set EMAIL_URL.", lasting=True)
    mail = EmailMessage(message.title, as_text(message), to=list(channel.config["recipients"]))
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as error:
        raise NotSentError(f"The mail server rejected the message ({type(error).__name__}).") from None
