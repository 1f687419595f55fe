"""What is refused at the door: guesses at a password, characters that no text has, strangers at the API's schema."""

from __future__ import annotations

import logging
from datetime import timedelta

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
