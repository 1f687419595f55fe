"""Secrets are hidden by where they stand, never by what they are (invariant 8)."""

from __future__ import annotations

import time

import pytest

from replicator.redaction import HIDDEN, redacted, redacted_values
from replicator.targets.iceberg.jvm.errors import reason

PASSWORDS = ("tidemark", "x", "e", "hunter2", "it's", "a b", "p/w@d", "p#w?d")
SENTENCE = "The source took the next row of tidemark.watermark with the user tidemark (using password: YES)."


def quoted(password: str) -> str:
    return "'" + password.replace("'", "''") + "'"


PLACES = (
    "mysql://root:{}@db.example:3306/shop",
    "jdbc:postgresql://h/db?user=me&password={}&ssl=true",
    "sasl.username=me, sasl.password={}, x=1",
    "credential={}, s3.access-key-id=AKIA",
    "AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "adls.auth.shared-key.account.key={}, adls.account-name=a",
    "https://a.blob.core.windows.net/c?sv=2026&sig={}&se=1",
    "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=a&X-Amz-Signature={}",
)
QUOTED_PLACES = (
    "host=h password={} dbname=d",
    "ALTER USER a IDENTIFIED BY {}",
    "CREATE USER a IDENTIFIED WITH sha256_password AS {}",
    "CREATE USER a IDENTIFIED VIA ed25519 USING PASSWORD({})",
    "ALTER ROLE a PASSWORD {}",
    "SET PASSWORD FOR a = PASSWORD({})",
    '{{"token": {}, "x": 1}}',
    "{{'signing_key': {}}}",
)


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("place", PLACES + QUOTED_PLACES)
def test_what_stands_in_the_place_of_a_secret_is_hidden(place: str, password: str) -> None:
    if place in PLACES and (" " in password or "'" in password or ("://" not in place and "@" in password)):
        return  # cannot stand there without quotes
    if "?" in place and any(mark in password for mark in "/#?@"):
        return
    found = redacted(place.format(quoted(password) if place in QUOTED_PLACES else password))
    assert found == place.format(HIDDEN).replace("{{", "{").replace("}}", "}"), found


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE, "Password must be entered again, because Host was changed.", "The token: a sign of 8 characters",
        "https://docs.example/page@version?tab=1", "see http://h:8080/a@b", "password is missing", "max_tokens=5",
        "SignatureDoesNotMatch: design=1, credentials=environment, s3.access-key-id=AKIA, token-expires-at=1",
        "user:name@example.com", "next row 4:5@6",
    ],
)  # fmt: skip
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


def test_values_are_hidden_by_their_names() -> None:
    values = {
        "password": "x",
        "nested": [{"sasl.password": "e", "Authorization": "Bearer abc"}],
        "said": "xe",
        "n": 3,
        "secret": "",
    }
    hidden = {
        "password": HIDDEN,
        "nested": [{"sasl.password": HIDDEN, "Authorization": HIDDEN}],
        "said": "xe",
        "n": 3,
        "secret": "",
    }
    assert redacted_values(values) == hidden
    assert redacted("Authorization: Bearer abc.def") == f"Authorization: Bearer {HIDDEN}"


def test_a_reason_of_java_keeps_its_words() -> None:
    assert redacted(reason(RuntimeError(SENTENCE))) == f"RuntimeError: {SENTENCE}"


def test_redaction_takes_linear_time() -> None:
    for piece in ("a://b:c@", "password=", "identified by ", "'", "password='", "x.y-z_"):
        text = piece * 40_000
        began = time.process_time()
        redacted(text)
        assert time.process_time() - began < 10, piece
