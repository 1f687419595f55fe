"""What BigQuery's names, values, types and answers become, and what is refused before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from google.api_core import exceptions
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from replicator.errors import (
    ConfigurationError,
    TableError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    ValueDoesNotFit,
)
from replicator.model.types import BINARY, DOUBLE, INT, STRING, DataType, decimal
from replicator.targets.bigquery.config import destination, place
from replicator.targets.bigquery.failures import explained
from replicator.targets.bigquery.names import bigquery_type, clustered, found_type, literal, quoted, refused_column
from replicator.targets.bigquery.value_limits import MAX_CELL, check_values
from replicator.targets.google_login import checked_endpoint, grant, may_impersonate, signed_in

DISABLED = "BigQuery API has not been used in project 1 before or it is disabled."
ABORTED = "Transaction is aborted due to concurrent update against table p:d.t."
WRONG = [("location", "../x"), ("project", "X"), ("commit_seconds", "-1"), ("login", "none"), ("login", "key")]
SETTINGS: dict[str, Any] = {"project": "my-project-1", "login": "environment"}


@pytest.mark.parametrize("text", ["", "a'b", "a\\b", "\\'", "a\nb\r\t", "ü✓", '{"a": "\\u0007\\""}', "`x` -- # /* ;"])
def test_a_text_in_a_statement_is_read_as_it_is(text: str) -> None:
    for one in sqlglot.parse_one(f"SELECT {literal(text)}", read="bigquery").find_all(sqlglot.exp.Literal):
        assert one.this == text


def test_values_in_a_statement() -> None:
    assert literal(-1) == "-1"
    assert literal(None) == "NULL"
    assert literal(datetime(2026, 1, 2, 3, 4, 5, 6, UTC)) == "TIMESTAMP '2026-01-02 03:04:05.000006+00:00'"
    assert quoted("a`b\\") == "`a\\`b\\\\`"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (decimal(38, 9), "NUMERIC(38,9)"),
        (decimal(29, 0), "NUMERIC(29,0)"),
        (decimal(30, 0), "BIGNUMERIC(30,0)"),
        (decimal(38, 0), "BIGNUMERIC(38,0)"),
        (decimal(12, 10), "BIGNUMERIC(12,10)"),
        (decimal(38, 38), "BIGNUMERIC(38,38)"),
    ],
)
def test_a_decimal_is_the_narrower_type_that_has_its_digits(kind: DataType, name: str) -> None:
    assert bigquery_type(kind) == name
    told, _, digits = name.removesuffix(")").partition("(")
    precision, scale = map(int, digits.split(","))
    assert found_type(told, precision, scale, "NULLABLE") == kind


def test_a_type_that_tidemark_does_not_make_is_none() -> None:
    assert found_type("JSON", None, None, "NULLABLE") is None
    assert found_type("STRING", None, None, "REPEATED") is None
    assert found_type("BIGNUMERIC", None, None, "NULLABLE") is None
    assert found_type("NUMERIC", None, None, "REQUIRED") == decimal(38, 9)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a" * 301, "300 characters"),
        ("_PARTITIONTIME", "_PARTITION"),
        ("_file_name", "_FILE_"),
        ("__root__x", "__ROOT__"),
        ("a.b", "does not take"),
        ("a`b", "does not take"),
        ("a\x00b", "printed"),
        ("preis in €", ""),
        ("Ü_1", ""),
        ("1st", ""),
        ("a-b:c", ""),
    ],
)
def test_a_name_that_no_column_can_have_is_told(name: str, told: str) -> None:
    found = refused_column(name)
    assert (told in found) if told else not found


def test_only_plain_names_and_types_with_an_order_are_clustered_by() -> None:
    assert clustered("id", INT)
    assert not clustered("preis in €", INT)
    assert not clustered("f", DOUBLE)
    assert not clustered("b", BINARY)
    assert clustered("s", STRING)


def test_a_value_that_does_not_fit_stops_the_table_before_it_is_sent() -> None:
    for values, name in (
        (pa.array(["x" * (MAX_CELL + 1)]), "text"),
        (pa.array([b"x" * (MAX_CELL + 1)]), "binary value"),
        (pa.array([1 << 40], pa.timestamp("s")).cast(pa.timestamp("us")), "year"),
    ):
        with pytest.raises(ValueDoesNotFit, match=f"column c of shop.t .*{name}"):
            check_values(pa.table({"c": values}), "shop.t")
    check_values(pa.table({"a": ["x", None], "d": pa.array([Decimal("1.5"), None])}), "shop.t")


def test_a_place_tells_projects_and_addresses_apart() -> None:
    assert place({"project": "p"}) == "p"
    assert place({"project": "p", "endpoint": "https://A.example/"}) == "a.example/p"
    assert place({}) == ""


def test_settings_of_a_destination() -> None:
    made = destination(SETTINGS)
    assert (made.location, made.commit_seconds, made.endpoint) == ("US", 120, "")
    assert "service_account" not in repr(made)
    for name, wrong in WRONG:
        with pytest.raises(ConfigurationError):
            destination(SETTINGS | {name: wrong})
    for location in ("EU", "us", "europe-west1", "northamerica-northeast2", "me-central2"):
        assert destination(SETTINGS | {"location": location}).location == location


@pytest.mark.parametrize(
    "url", ["http://x.example", "https://x.example/path", "https://u@x.example", "ftp://x", "https://"]
)
def test_an_address_of_the_api_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        checked_endpoint({"endpoint": url})


def test_commands_name_who_does_the_work() -> None:
    assert signed_in(SETTINGS) == "ACCOUNT"
    both = SETTINGS | {"impersonate": "a@p.iam.gserviceaccount.com"}
    assert signed_in(both) == "a@p.iam.gserviceaccount.com"
    member = "--member=serviceAccount:a@p.iam.gserviceaccount.com"
    assert grant(both, "my-project-1", "roles/x").endswith(f"{member} --role=roles/x")
    assert "binding a@p.iam.gserviceaccount.com --member=serviceAccount:ACCOUNT" in may_impersonate(both)


def _call(kind: type[exceptions.GoogleAPICallError], reason: str, text: str) -> Callable[[], Exception]:
    return lambda: kind(text, errors=[{"reason": reason, "message": text}])


ANSWERS: list[tuple[Callable[[], Exception], type[TidemarkError], str]] = [
    (_call(exceptions.Forbidden, "accessDenied", "Access Denied"), TargetUnauthorized, "allow"),
    (_call(exceptions.Forbidden, "quotaExceeded", "Quota exceeded"), TargetError, "quota"),
    (_call(exceptions.Forbidden, "rateLimitExceeded", "Exceeded"), TargetError, "throttles"),
    (_call(exceptions.Forbidden, "accessNotConfigured", DISABLED), TargetUnauthorized, "off"),
    (_call(exceptions.Forbidden, "billingNotEnabled", "Billing"), TargetUnauthorized, "billing"),
    (_call(exceptions.NotFound, "notFound", "Not found: Table"), TargetError, "no such object"),
    (_call(exceptions.Conflict, "duplicate", "Already Exists: Table"), TargetConflict, "overtaken"),
    (_call(exceptions.PreconditionFailed, "conditionNotMet", "Precondition Failed"), TargetConflict, "overtaken"),
    (_call(exceptions.BadRequest, "invalidQuery", ABORTED), TargetConflict, "overtaken"),
    (_call(exceptions.BadRequest, "invalid", "Bad int64 value: v4lue"), ValueDoesNotFit, "value"),
    (_call(exceptions.BadRequest, "resourcesExceeded", "too many"), TargetError, "lacks resources"),
    (lambda: exceptions.ServiceUnavailable("503"), TargetError, "passing"),
    (lambda: exceptions.RetryError("late", exceptions.ServiceUnavailable("503")), TargetError, "passing"),
    (lambda: exceptions.RetryError("late", RefreshError("no")), TargetUnauthorized, "refused the login"),
    (lambda: exceptions.Unauthorized("no"), TargetUnauthorized, "login"),
    (lambda: ConnectionResetError("cut"), TargetError, "cannot be reached"),
    (lambda: DefaultCredentialsError("none"), TargetUnauthorized, "no Google identity"),
    (lambda: RefreshError("invalid_grant"), TargetUnauthorized, "refused the login"),
    (lambda: TransportError("no route"), TargetError, "login service"),
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_each_answer_is_a_sentence_with_a_remedy(number: int) -> None:
    made, kind, told = ANSWERS[number]
    with pytest.raises(TidemarkError) as found, explained(destination(SETTINGS)):
        raise made()
    assert type(found.value) is kind
    assert told in found.value.message
    assert "v4lue" not in found.value.message
    assert found.value.remedy
    assert found.value.retryable == (not issubclass(kind, TableError))
