"""Connection settings that cannot be right are refused with a sentence before they are stored: in page, API and
file.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from replicator.errors import ConfigurationError
from webapp.connections import services
from webapp.connections.forms import PREFIX
from webapp.connections.models import Connection
from webapp.console.definitions import apply as definitions
from webapp.destinations.services import DESTINATIONS

GOOD = {"host": "db.example", "user": "u", "password": "p"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"port": 70000}, "port is not a number"),
    ({"port": 0}, "port is not a number"),
    ({"port": int("9" * 400)}, "Port has more than"),
    ({"host": "h" * 5000}, "Host has more than"),
    ({"host": "169.254.169.254"}, "link-local"),
    ({"host": "::ffff:169.254.169.254"}, "link-local"),
    ({"host": "/var/run/mysqld/mysqld.sock"}, "socket"),
    ({"ca": "no certificate", "tls": "verify_ca"}, "PEM"),
    ({"user": "u" * 5000}, "User has more than"),
    ({"password": "p" * 50_000}, "Password has more than"),
    ({"user": "a\0b"}, "User contains an invalid character"),
    ({"watermark_database": "a\nb"}, "Watermark database contains an invalid character"),
]
OF_THE_API: list[tuple[dict[str, Any], str]] = [
    ({"host": ["db.example"]}, "Host must be a text"),
    ({"user": {"a": 1}}, "User must be a text"),
    ({"password": ["p"]}, "Password must be a text"),
]


@pytest.fixture
def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(("wrong", "said"), WRONG + OF_THE_API)
def test_the_api_refuses_them(client: APIClient, wrong: dict[str, Any], said: str) -> None:
    made = services.create_connection(name="good", kind="mysql", config=GOOD)
    for answer in (
        client.post("/api/v1/connections/", {"name": "c", "kind": "mysql", "config": GOOD | wrong}, format="json"),
        client.patch(f"/api/v1/connections/{made.pk}/", {"config": GOOD | wrong}, format="json"),
        client.post("/api/v1/connections/test/", {"kind": "mysql", "config": GOOD | wrong}, format="json"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (400, "configuration"), answer.content[:300]
        assert said in answer.json()["message"]
        assert len(answer.json()["message"]) < 400
    assert Connection.objects.get().config == made.config


@pytest.mark.parametrize(("wrong", "said"), [one for one in WRONG if "\0" not in str(one[0].get("user"))])
def test_a_file_with_them_is_refused(db: None, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        definitions.apply(yaml.safe_dump({"connections": [{"name": "c", "kind": "mysql", "config": GOOD | wrong}]}), {})
    assert not Connection.objects.exists()


@pytest.mark.filterwarnings("ignore:No directory at")
@pytest.mark.parametrize(("wrong", "said"), [one for one in WRONG if "\0" not in str(one[0].get("user"))])
def test_the_page_refuses_them(browser: Client, wrong: dict[str, Any], said: str) -> None:
    defaults = {"port": "3306", "tls": "preferred", "connect_timeout": "10", "watermark_database": "tidemark"}
    typed = {PREFIX + name: str(value) for name, value in (defaults | GOOD | wrong).items()}
    address = reverse("connections:new") + "?kind=mysql"
    page = browser.post(address, {"name": "c"} | typed)
    assert (page.status_code, said in page.content.decode()) == (200, True)
    assert not Connection.objects.exists()


def test_a_password_that_cannot_be_sent_is_refused(db: None) -> None:
    for password in ("\ud800", "a\0b", "a\nb"):
        with pytest.raises(ConfigurationError, match="Password contains an invalid character"):
            services.create_connection(name="c", kind="mysql", config=GOOD | {"password": password})
    assert services.create_connection(name="c", kind="mysql", config=GOOD | {"password": " пароль ☂ "}).pk


def test_a_target_is_checked_the_same_way() -> None:
    for wrong, said in (
        ({"bootstrap_servers": "169.254.169.254:9092"}, "link-local"),
        ({"bootstrap_servers": "h" * 5000 + ":1"}, "more than"),
        ({"ca": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"}, "PEM"),
        ({"username": "a\tb"}, "contains an invalid character"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            DESTINATIONS.checked("kafka", {"bootstrap_servers": "k:1", **wrong})
