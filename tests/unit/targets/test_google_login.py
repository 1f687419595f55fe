"""How Tidemark signs in to Google: a key, what the workers have, another account; and what is refused before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import impersonated_credentials
from google.auth.exceptions import RefreshError
from google.oauth2 import service_account

from replicator.errors import ConfigurationError, TargetUnauthorized
from replicator.targets.google_login import LOGIN_FORM, credentials, explained_login

SCOPES = ("https://www.googleapis.com/auth/bigquery",)
OTHER = "other@my-project-1.iam.gserviceaccount.com"


@pytest.fixture(scope="module")
def key() -> dict[str, Any]:
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account", "private_key": pem.decode(), "token_uri": "https://oauth2.googleapis.com/token",
        "client_email": "tidemark@my-project-1.iam.gserviceaccount.com",
    }  # fmt: skip


def test_a_key_signs_in_as_its_account(key: dict[str, Any]) -> None:
    made = credentials({"login": "key", "service_account_key": json.dumps(key)}, SCOPES)
    assert isinstance(made, service_account.Credentials)
    assert (made.service_account_email, tuple(made.scopes)) == (key["client_email"], SCOPES)


def test_another_account_is_impersonated_with_the_key(key: dict[str, Any]) -> None:
    settings = {"login": "key", "service_account_key": json.dumps(key), "impersonate": OTHER}
    made = credentials(settings, SCOPES)
    assert isinstance(made, impersonated_credentials.Credentials)
    assert made.service_account_email == OTHER
    with pytest.raises(TargetUnauthorized) as found, explained_login(settings):
        raise RefreshError("denied")
    assert "add-iam-policy-binding other@" in found.value.remedy
    assert key["client_email"] in found.value.remedy


def test_the_workers_identity_is_the_file_that_their_environment_names(
    key: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    assert credentials({"login": "environment"}, SCOPES).service_account_email == key["client_email"]
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(TargetUnauthorized, match="no Google identity"):
        credentials({"login": "environment"}, SCOPES)


@pytest.mark.parametrize(
    "change",
    [
        {"type": "external_account"},
        {"type": "authorized_user"},
        {"token_uri": "https://rogue.example/token"},
        {"token_uri": "http://oauth2.googleapis.com/token"},
        {"token_uri": "https://googleapis.com.rogue.example/token"},
        {"client_email": "x y"},
        {"private_key": ""},
        {"private_key": "-----BEGIN PRIVATE KEY-----"},
    ],
)
def test_a_file_that_names_another_address_or_is_no_key_is_refused(key: dict[str, Any], change: dict[str, str]) -> None:
    """Other kinds of credential files may name any program, file or address that their author wants."""
    with pytest.raises(ConfigurationError) as found:
        credentials({"login": "key", "service_account_key": json.dumps(key | change)}, SCOPES)
    assert "PRIVATE KEY" not in found.value.message


def test_the_key_is_a_secret_and_every_other_field_asks_for_it_again() -> None:
    assert [one.name for one in LOGIN_FORM if one.secret] == ["service_account_key"]
    assert not [one.name for one in LOGIN_FORM if one.keeps_secret]
