"""What pages show of a destination and of its tables, in every warehouse: the test, what is wrong, and the figures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from google.cloud.bigquery.retry import DEFAULT_RETRY

from replicator.errors import ConfigurationError
from replicator.model.mode import Mode
from replicator.sources.base import CheckStatus
from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import place as bigquery_place
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.postgres.config import place as postgres_place
from replicator.targets.postgres.kind import POSTGRES
from replicator.targets.redshift.config import place as redshift_place
from replicator.targets.snowflake.config import place as snowflake_place
from replicator.targets.spanner.config import place as spanner_place
from replicator.targets.spanner.kind import SPANNER
from tests.integration.warehouse.copies import Copies
from tests.integration.warehouse.places import WAREHOUSES
from tests.staged import insert, schema_of

pytestmark = pytest.mark.integration
WIDE = schema_of({"id": "int", "v": "string", "b": "binary"}, ["id"])
SECRETS = ("a-wrong-secret", "PRIVATE KEY")
everywhere = pytest.mark.parametrize("copies", WAREHOUSES, indirect=True)
CHECKS = {
    "postgres": ["reachable", "version", "primary", "encoding", "tls", "temporary", "schemas", "tables"],
    "redshift": ["connection", "privilege_to_create_schemas", "table", "staging_bucket", "load", "merge"],
    "snowflake": 8,
    "bigquery": 7,
    "spanner": 5,
}


@everywhere
def test_the_test_of_a_destination_tries_all_and_leaves_nothing(copies: Copies) -> None:
    kind = copies.kind
    assert kind.check is not None
    assert kind.written is not None
    found = kind.check(copies.settings)
    assert {one.status for one in found} == {CheckStatus.OK}, found
    names = [one.name for one in found]
    assert CHECKS[kind.name] in (names, len(names))
    assert not [name for name in copies.schemas() if name.startswith("tidemark_test")]
    copies.filled()
    assert kind.written(copies.settings).status is CheckStatus.OK


# Settings in place of those that work, what the test says of them, and what it advises, as regular expressions.
WRONG: dict[str, list[tuple[dict[str, Any], str, str]]] = {
    "enforced": [
        ({"port": 1}, "refused", "."),
        ({"password": "a-wrong-secret"}, "refused the login", "."),
        ({"database": "none"}, "no such database", "."),
        ({"host": "169.254.169.254"}, "link-local", "."),
        ({"tls": "verify-full"}, "SSL|certificate", "."),
    ],
    "redshift": [
        ({"port": "1"}, "^Connection: .*refused", "."),
        ({"password": "a-wrong-secret"}, "^Connection: .*refused the login", "."),
        ({"database": "none"}, "^Connection: .*no such database", "."),
        ({"tls": "verify-full"}, "^Connection: .*SSL", "."),
        ({"staging": "s3://no-such-bucket/x"}, "^Staging bucket: .*does not exist", "."),
        ({"secret_access_key": "a-wrong-secret"}, "^Staging bucket: .*SignatureDoesNotMatch", "."),
        ({"store_endpoint": "http://127.0.0.1:1"}, "^Staging bucket: .*cannot be reached", "."),
        ({"iam_role": "arn:aws:iam::123456789012:role/other"}, "^Load: .*cannot read the staging bucket", "."),
    ],
    "snowflake": [
        ({"password": "a-wrong-secret"}, "refused the login", "credentials"),
        ({"host": "http://127.0.0.1:1", "connect_timeout": "1"}, "cannot be reached|failed", "HTTPS"),
        ({"database": "none"}, "no such object", "GRANT USAGE, CREATE SCHEMA"),
        ({"account": "not an account"}, "account identifier", ""),
        ({"host": "http://snow.example"}, "host name", "this machine"),
        ({"host": "169.254.169.254"}, "link-local", ""),
        ({"authentication": "key_pair", "private_key": "no key"}, "PEM", "openssl"),
        ({"authentication": "oauth"}, "no token", ""),
    ],
    "bigquery": [
        ({"key": {"client_email": "other@x.iam.gserviceaccount.com"}}, "refused the login", "key"),
        ({"endpoint": "http://127.0.0.1:1"}, "cannot be reached", "HTTPS"),
        ({"project": "another-project"}, "does not allow it", "roles/bigquery.jobUser"),
        ({"location": "US"}, "no such object", "test"),
        ({"project": "no project"}, "id of a Google Cloud project", "gcloud projects list"),
        ({"endpoint": "http://private.example"}, "https://", "this machine"),
        ({"endpoint": "https://169.254.169.254"}, "link-local", ""),
        ({"service_account_key": "{}"}, "not the JSON file", "gcloud iam service-accounts keys create"),
        ({"key": {"token_uri": "https://rogue.example/token"}}, "not Google's", "gcloud"),
        ({"key": {"private_key": "no key"}}, "cannot be read", ""),
        ({"impersonate": "nobody"}, "e-mail address", ""),
    ],
    "spanner": [
        ({"endpoint": "http://127.0.0.1:1", "connect_timeout": "1"}, "cannot be reached|in time", "HTTPS|Retried"),
        ({"database": "none"}, "Database not found", "gcloud spanner databases create none"),
        ({"instance": "none"}, "not found", "gcloud spanner databases create"),
        ({"database": "No database"}, "must be the id of a Spanner database", "gcloud spanner databases list"),
        ({"project": ""}, "id of a Google Cloud project", "gcloud projects list"),
        ({"endpoint": "http://spanner.example"}, "endpoint", "this machine"),
        ({"endpoint": "https://169.254.169.254"}, "link-local", ""),
        ({"endpoint": "", "login": "key"}, "no service_account_key", "gcloud iam service-accounts keys create"),
        ({"endpoint": "", "login": "key", "service_account_key": "a-wrong-secret"}, "not the JSON", "keys create"),
    ],
}


@pytest.mark.parametrize(
    ("copies", "changes", "told", "remedy"),
    [pytest.param(place, *one, id=f"{place} {one[1]}") for place, cases in WRONG.items() for one in cases],
    indirect=["copies"],
)
def test_what_is_wrong_is_told_with_a_remedy_and_without_secrets(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], told: str, remedy: str
) -> None:
    """key: fields of a service account's.  Patience is for a server that comes back."""
    monkeypatch.setattr("replicator.targets.bigquery.connection.RETRY", DEFAULT_RETRY.with_timeout(1.0))
    settings = copies.settings | {name: value for name, value in changes.items() if name != "key"}
    if "key" in changes:
        key = json.loads(copies.settings["service_account_key"]) | changes["key"]
        settings["service_account_key"] = json.dumps(key)
    assert copies.kind.check is not None
    last = next(one for one in copies.kind.check(settings) if one.status is CheckStatus.FAILED)
    assert re.search(told, f"{last.title}: {last.detail}"), last
    assert re.search(remedy, last.remedy), last
    assert not [secret for secret in SECRETS if secret in str(last)]


# The programs that a page has an example for, and what the first one's has.
EXAMPLES = {
    "postgres": (["psql", "psycopg"], 'SELECT * FROM "copies_'),
    "redshift": (["Query editor", "redshift_connector"], 'SELECT * FROM "copies_'),
    "snowflake": (["Snowsight", "snowflake-connector-python"], 'SELECT * FROM "COPY"."copies '),
    "bigquery": (["BigQuery console", "bq", "google-cloud-bigquery"], "SELECT * FROM `tidemark-test`."),
    "spanner": (["Spanner Studio", "gcloud", "google-cloud-spanner"], "SELECT * FROM `copies_"),
}


@everywhere
def test_a_tables_page_has_its_figures_rows_and_what_to_paste(copies: Copies) -> None:
    kind = copies.kind
    assert kind.report is not None
    assert kind.preview is not None
    table = copies.table(WIDE, mode=Mode.SOFT_DELETE)
    copies.merge(table, WIDE, insert(0, 0, None, None), *[insert(n, n, "x" * n * 20, bytes([n])) for n in range(1, 60)])
    report = kind.report(copies.settings, NO_LAKE, table.namespace, table.name)
    assert report is not None
    if kind.name != "snowflake":  # its stand-in does not count
        assert report.rows == 60
    if kind.name in ("postgres", "redshift"):
        assert report.bytes > 0
    assert (report.columns, report.files) == (5, 0)
    engines, text = EXAMPLES[kind.name]
    assert [one.engine for one in report.examples] == engines
    assert text in report.examples[0].text
    hidden = {one.name for one in kind.destination_form if one.secret} & copies.settings.keys()
    if kind.name not in ("postgres", "redshift"):  # whose password is a word of the examples
        assert not [name for name in hidden if copies.settings[name] in str(report.examples)]
    shown = kind.preview(copies.settings, NO_LAKE, table, 50)
    assert shown is not None
    assert len(shown.rows) == 50
    shown = kind.preview(copies.settings, NO_LAKE, table, 100)
    assert shown is not None
    assert list(shown.columns)[:3] == ["id", "v", "b"]
    rows = {row[0]: tuple(row[1:3]) for row in shown.rows}
    assert rows["0"] == (None, None)
    assert rows["1"] in {("x" * 20, "01"), ("x" * 20, "\\x01")}
    assert rows["20"][0] == "x" * 200 + "…"
    gone = TargetTable(table.namespace, "gone")
    assert kind.report(copies.settings, NO_LAKE, gone.namespace, gone.name) is None
    assert kind.preview(copies.settings, NO_LAKE, gone, 5) is None


def test_a_place_tells_servers_accounts_and_databases_apart() -> None:
    server = {"host": "db.example", "user": "u", "password": "secret"}
    assert postgres_place(server) == "db.example:5432/u"
    assert postgres_place({**server, "host": "DB.example", "database": "d", "port": "6432"}) == "db.example:6432/d"
    assert snowflake_place({"account": "A-b", "database": "D"}) == "a-b/D"
    assert snowflake_place({"account": "A-b", "database": "D", "host": "Link.example"}) == "link.example/D"
    spanner = {"project": "my-project", "instance": "i1", "database": "d1"}
    assert spanner_place(spanner) == "my-project/i1/d1"
    at = "https://private.example/my-project/i1/d1"
    assert spanner_place(spanner | {"endpoint": "https://Private.example/"}) == at
    for place, lacking in (
        (postgres_place, {}), (redshift_place, {}), (bigquery_place, {}), (snowflake_place, {"account": "A-b"}),
        (spanner_place, {"project": "my-project"}),
    ):  # fmt: skip
        assert place(lacking) == ""
    with pytest.raises(ConfigurationError, match="no host"):
        POSTGRES.valid({"database": "d"})
    with pytest.raises(ConfigurationError, match="no instance"):
        SPANNER.valid({"project": "my-project", "database": "d1"})
    assert SPANNER.dataset(spanner | {"login": "environment"}, NO_LAKE) == "spanner://my-project:i1/d1"
