"""Every address and every control, by every role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, get_resolver, resolve, reverse
from django.utils import timezone
from rest_framework.test import APIClient

from tests.browser.factories import Installation
from webapp.accounts import roles, services
from webapp.accounts.models import ApiToken, AuditEntry
from webapp.accounts.roles import OWN, READ_BY, RUNS, Role

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.filterwarnings("ignore:No directory at")]
METHODS = ("get", "post", "put", "patch", "delete")
OPEN = {"healthz", "readyz", "metrics", "accounts:sign_in", "accounts:sign_in_once", "accounts:sign_out"}


def user_of(role: Role) -> User:
    user = get_user_model()(username=f"the {role}")
    roles.set_role(user, role)
    user.set_password("correct horse battery")
    user.save()
    return user


def client_of(role: Role) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user_of(role))
    return client


def addresses(patterns: list[object] | None = None, name: str = "", path: str = "/") -> Iterator[tuple[str, str]]:
    """(name, address) of all there are, with something in the place of each parameter."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        below = path + re.sub(r"^\^|\$$", "", str(one.pattern))
        if isinstance(one, URLPattern):
            filled = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", below)
            filled = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: filling(found[1]), filled)
            if one.name:
                yield f"{name}{one.name}", filled
        else:
            space = f"{name}{one.namespace}:" if one.namespace else name
            yield from addresses(one.url_patterns, space, below)


def filling(parameter: str) -> str:
    return {"name": "x", "group": "x", "action": "skip", "step": "source", "token": "x", "kind": "mysql"}.get(
        parameter, "1"
    )


def test_every_address_takes_its_least_role_and_refuses_the_one_below(made: Installation) -> None:
    """What it answers the least role is the view's own.  Roles are compared by rank: all others are as these two."""
    found = dict(addresses())
    assert len(found) > 140
    assert {*OWN, *RUNS, *READ_BY} <= found.keys(), "a name in the table that is no address"
    clients = {role.rank: client_of(role) for role in Role}
    for name, path in found.items():
        if name in OPEN:
            continue
        for method in METHODS:
            least = roles.needed(resolve(path), method.upper()).rank
            for rank in {least, least - 1} & clients.keys():
                answer = getattr(clients[rank], method)(path)
                assert (answer.status_code == 403) == (rank < least), (
                    rank,
                    method,
                    name,
                    answer.status_code,
                    answer.content[:300],
                )


def test_what_is_not_in_the_table_takes_an_admin_to_change() -> None:
    changing = {
        name for name, path in addresses()
        if name not in OPEN and roles.needed(resolve(path), "POST") is not Role.ADMIN
    }  # fmt: skip
    assert changing == {*RUNS, *OWN} - OPEN


class Controls(HTMLParser):
    """Where a page's forms, buttons and links go: (method, address)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page, self.found = page, set[tuple[str, str]]()
        self._off = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form" and given.get("method", "get") == "post" and "data-fill" not in given:
            self._note("POST", given.get("action") or self.page)
        for name in ("hx-post", "data-action"):
            self._note("POST", given.get(name) or "")
        self._note("GET", given.get("hx-get") or "")
        if tag == "a":
            self._note("GET", given.get("href") or "")

    def _note(self, method: str, address: str) -> None:
        whole = urlsplit(urljoin(self.page, address))
        if address and not whole.netloc and not address.startswith("#"):
            self.found.add((method, whole.path))


def pages(made: Installation) -> Iterator[str]:
    """Those that a person opens, of a replicator in every state."""
    for name in (
        "replicators:fleet",
        "connections:list",
        "alerts:index",
        "alerts:channels",
        "streams:index",
        "accounts:tokens",
    ):
        yield reverse(name)
    yield reverse("monitoring:all_failures")
    for replicator in made.replicators.values():
        for name in ("overview", "head", "tables", "activity", "schema", "lineage", "settings"):
            yield reverse(f"replicators:{name}", args=[replicator.pk])
        for name in ("failures", "dead_letters", "charts", "logs"):
            yield reverse(f"monitoring:{name}", args=[replicator.pk])
        for table in replicator.tables.all()[:3]:
            for name in ("table_columns", "table_snapshots", "table_target", "lineage_table"):
                yield reverse(f"replicators:{name}", args=[replicator.pk, table.pk])


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_no_page_offers_what_its_reader_may_not_do(made: Installation, role: Role) -> None:
    client = client_of(role)
    wrong = set()
    for page in pages(made):
        answer = client.get(page)
        assert answer.status_code == 200, page
        controls = Controls(page)
        controls.feed(answer.content.decode())
        wrong |= {
            (method, resolve(path).view_name, resolve(path).kwargs.get("action", ""), resolve(page).view_name)
            for method, path in controls.found
            if not path.startswith("/static/") and not roles.may(role, method, path)
        }
    assert not wrong, "\n".join(map(str, sorted(wrong)))


def test_a_token_may_do_what_it_was_given_and_never_more_than_its_user(made: Installation) -> None:
    pk = made.replicators["shop to lakehouse"].pk
    admin = user_of(Role.ADMIN)

    def status(plain: str, path: str, method: str = "post") -> int:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
        return int(getattr(client, method)(path, {}, format="json").status_code)

    runs = services.create_token(user=admin, name="nightly", role=Role.OPERATOR)
    assert status(runs, f"/api/v1/replicators/{pk}/pause/") == 200
    assert status(runs, "/api/v1/connections/") == 403
    assert status(runs, "/api/v1/users/", "get") == 403
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {runs}")
    more = client.post("/api/v1/tokens/", {"name": "more", "role": "admin"}, format="json").json()
    assert more["role"] == "operator"
    assert status(more["token"], "/api/v1/connections/") == 403
    services.update_user(user=admin, role=Role.VIEWER, by=made.user)
    assert status(runs, f"/api/v1/replicators/{pk}/pause/") == 403
    assert status(runs, f"/api/v1/replicators/{pk}/", "get") == 200
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert status(runs, f"/api/v1/replicators/{pk}/", "get") == 401


def test_the_audit_log_says_who_did_what_and_outlives_it(made: Installation) -> None:
    replicator = made.replicators["shop to lakehouse"]
    client = Client(REMOTE_ADDR="192.0.2.7")
    assert (
        client.post(reverse("accounts:sign_in"), {"username": made.user.username, "password": "wrong"}).status_code
        == 200
    )
    given = {"username": made.user.username, "password": "correct horse battery"}
    assert client.post(reverse("accounts:sign_in"), given).status_code == 302
    api = APIClient(REMOTE_ADDR="192.0.2.8")
    plain = services.create_token(user=made.user, name="ci", days=30)
    api.credentials(HTTP_AUTHORIZATION=f"Bearer {plain}")
    old = replicator.parsed_options.slo_minutes
    assert (
        api.patch(f"/api/v1/replicators/{replicator.pk}/options/", {"slo_minutes": 7}, format="json").status_code == 200
    )
    config = {"host": "elsewhere", "password": "s3cret-new"}
    assert api.patch(f"/api/v1/connections/{made.connection.pk}/", {"config": config}, format="json").status_code == 200
    name = replicator.name
    replicator.delete()
    lines = {line.kind: line for line in AuditEntry.objects.all()}
    assert lines["sign_in_failed"].who == lines["signed_in"].who == made.user.username
    assert lines["signed_in"].address == "192.0.2.7"
    assert (lines["options"].about, lines["options"].token, lines["options"].address) == (name, "ci", "192.0.2.8")
    assert lines["options"].detail == {"changes": {"slo_minutes": [old, 7]}}
    assert lines["connection_changed"].detail["changes"]["host"] == ["db.internal", "elsewhere"]
    assert "password" in lines["connection_changed"].summary
    assert "s3cret" not in "".join(str(line.detail) + line.summary for line in AuditEntry.objects.all())
    page = client.get(reverse("accounts:audit")).content.decode()
    assert "slo_minutes" in page
    assert "192.0.2.7" in page
    shown = api.get("/api/v1/audit/?kind=options").json()["results"]
    assert [line["about"] for line in shown] == [name]


def test_the_last_admin_stays_one(made: Installation) -> None:
    client = Client()
    client.force_login(made.user)
    for change in ({"role": "viewer"}, {"active": "no"}):
        answer = client.post(reverse("accounts:users"), {"user": made.user.pk, **change}, follow=True)
        assert "This is the only admin." in answer.content.decode()
    given = {"username": "grace", "password": "correct horse battery", "role": "operator"}
    assert client.post(reverse("accounts:users"), given).status_code == 302
    grace = get_user_model().objects.get(username="grace")
    assert roles.role_of(grace) is Role.OPERATOR
    hers = Client()
    hers.force_login(grace)
    assert hers.get(reverse("replicators:fleet")).status_code == 200
    assert client.post(reverse("accounts:users"), {"user": grace.pk, "active": "no"}).status_code == 302
    assert hers.get(reverse("replicators:fleet")).status_code == 302
    answer = client.post(reverse("accounts:users"), {**given, "username": "Grace"})
    assert "There is already a user named Grace." in answer.content.decode()
