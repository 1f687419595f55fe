"""Tokens, sessions, and what a request without either gets."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts import services
from webapp.accounts.models import ApiToken


def test_a_request_without_token_is_told_how_to_get_one(db: None) -> None:
    response = APIClient().get("/api/v1/me/")
    assert response.status_code == 401
    assert response["WWW-Authenticate"] == "Bearer"
    assert set(response.json()) == {"code", "message", "remedy"}
    assert response.json()["code"] == "not_authenticated"


def test_a_wrong_token_is_refused(db: None) -> None:
    response = APIClient().get("/api/v1/me/", HTTP_AUTHORIZATION="Bearer tdm_wrong")
    assert (response.status_code, response.json()["code"]) == (401, "authentication_failed")


def test_a_token_is_shown_once_and_works_until_it_is_revoked(client: APIClient, user: User) -> None:
    made = client.post("/api/v1/tokens/", {"name": "ci"}, format="json").json()
    assert made["token"].startswith("tdm_")
    assert not ApiToken.objects.filter(digest=made["token"]).exists()
    own = APIClient()
    own.credentials(HTTP_AUTHORIZATION=f"Bearer {made['token']}")
    assert own.get("/api/v1/me/").json()["username"] == "ada"
    listed = client.get("/api/v1/tokens/").json()
    assert listed["count"] == 2
    assert not any("token" in line or "digest" in line for line in listed["results"])
    assert client.delete(f"/api/v1/tokens/{made['id']}/").status_code == 204
    assert own.get("/api/v1/me/").status_code == 401


def test_a_user_cannot_revoke_the_token_of_another(client: APIClient, user: User) -> None:
    services.create_token(user=User.objects.create_superuser("eve"), name="hers")
    hers = ApiToken.objects.get(name="hers")
    assert client.delete(f"/api/v1/tokens/{hers.pk}/").status_code == 404
    assert ApiToken.objects.filter(pk=hers.pk).exists()


def test_a_session_works_too_but_changes_need_the_csrf_token(user: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    assert browser.get("/api/v1/me/").json()["username"] == "ada"
    refused = browser.post("/api/v1/tokens/", {"name": "x"}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("address", ["/api/v1/nothing/", "/api/v1/replicators/99999/", "/api/v1/connections/x/"])
def test_an_unknown_address_answers_in_the_form_of_the_api(client: APIClient, address: str) -> None:
    response = client.get(address)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert response.json()["remedy"]


def test_a_wrong_body_names_the_field(client: APIClient) -> None:
    response = client.post("/api/v1/tokens/", {}, format="json")
    assert response.status_code == 400
    assert response.json()["code"] == "invalid"
    assert "name" in response.json()["fields"]
    broken = client.post("/api/v1/tokens/", "{", content_type="application/json")
    assert (broken.status_code, broken.json()["code"]) == (400, "parse_error")
    assert client.put("/api/v1/tokens/", {}, format="json").json()["code"] == "method_not_allowed"
