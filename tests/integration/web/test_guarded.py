"""What is refused at the door: guesses at a password, characters that no text has, strangers at the API's schema."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from tests.browser.factories import Installation
from webapp.accounts.models import FailedSignIn
from webapp.accounts.services import GUESSES

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]


def sign_in(made: Installation, password: str, address: str = "192.0.2.1") -> str:
    """What the page says; empty where it let in."""
    client = Client(REMOTE_ADDR=address)
    answer = client.post(reverse("accounts:sign_in"), {"username": made.user.username, "password": password})
    return "" if answer.status_code == 302 else answer.content.decode()


def test_who_guesses_has_to_wait_and_others_have_not(made: Installation, caplog: pytest.LogCaptureFixture) -> None:
    made.user.set_password("right")
    made.user.save()
    with caplog.at_level(logging.WARNING, "tidemark.web"):
        for number in range(GUESSES):
            assert "Too many" not in sign_in(made, f"wrong {number}")
    assert f"A sign-in failed: {made.user.username!r} from 192.0.2.1" in caplog.text
    assert "wrong" not in caplog.text
    assert "Too many sign-ins failed. Try again in 10 minutes." in sign_in(made, "right")
    assert sign_in(made, "right", "192.0.2.2") == ""
    FailedSignIn.objects.update(at=timezone.now() - timedelta(minutes=11))
    assert sign_in(made, "right") == ""


@pytest.mark.parametrize(
    ("proxies", "told", "address"),
    [
        (0, "203.0.113.9", "192.0.2.1"),
        (1, "198.51.100.4, 203.0.113.9", "203.0.113.9"),
        (2, "198.51.100.4, 203.0.113.9, 192.0.2.5", "203.0.113.9"),
        (2, "203.0.113.9", "203.0.113.9"),
        (1, "", "192.0.2.1"),
        (1, "<script>", "192.0.2.1"),
    ],
)
def test_behind_proxies_the_client_is_whom_the_outermost_of_ours_has_seen(
    made: Installation, settings: Any, proxies: int, told: str, address: str
) -> None:
    settings.TIDEMARK_PROXIES = proxies
    client = Client(REMOTE_ADDR="192.0.2.1", HTTP_X_FORWARDED_FOR=told)
    client.post(reverse("accounts:sign_in"), {"username": made.user.username, "password": "wrong"})
    assert FailedSignIn.objects.get().address == address


def test_a_nul_in_an_address_is_refused_in_a_sentence(browser: Client, made: Installation) -> None:
    pk = made.replicators["shop to lakehouse"].pk
    for page in (reverse("replicators:fleet"), reverse("monitoring:logs", args=[pk]), "/api/v1/replicators/"):
        for query in ("q=%00", "search=a%00b", "%00"):
            answer = browser.get(f"{page}?{query}")
            assert answer.status_code == 400
            assert "U+0000" in answer.content.decode()
    assert browser.get("/api/v1/repl%00icators/").status_code == 400


def test_the_schema_of_the_api_is_for_who_is_signed_in(browser: Client) -> None:
    for name in ("api-schema", "api-docs"):
        assert Client().get(reverse(name)).status_code in {401, 403}
        assert browser.get(reverse(name)).status_code == 200
