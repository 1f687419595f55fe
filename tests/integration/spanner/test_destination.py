"""A Spanner destination: its test, what is wrong with it, and what its page shows."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckStatus
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.spanner.config import destination, place
from replicator.targets.spanner.dialect import SpannerDialect
from replicator.targets.spanner.kind import SPANNER
from tests.integration.spanner.copies import SpannerCopies
from tests.staged import insert, schema_of

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "x": "binary"}, ["id"])


def test_the_test_of_a_destination_tries_all_and_leaves_nothing(copies: SpannerCopies) -> None:
    assert SPANNER.check is not None
    assert SPANNER.written is not None
    found = SPANNER.check(copies.settings)
    assert {one.status for one in found} == {CheckStatus.OK}, found
    assert len(found) == 5
    schemas = copies.query("SELECT schema_name FROM information_schema.schemata")
    assert not [name for (name,) in schemas if name.startswith("tidemark_test")]
    copies.table(KEYED)
    assert SPANNER.written(copies.settings).status is CheckStatus.OK
    copies.spanner.make("empty")
    assert SPANNER.written(copies.settings | {"database": "empty"}).status is CheckStatus.FAILED


@pytest.mark.parametrize(
    ("changes", "told", "remedy"),
    [
        ({"endpoint": "http://127.0.0.1:1", "connect_timeout": "1"}, "cannot be reached|in time", "HTTPS|Retried"),
        ({"database": "none"}, "Database not found", "gcloud spanner databases create none"),
        ({"instance": "none"}, "not found", "gcloud spanner databases create"),
        ({"database": "No database"}, "must be the id of a Spanner database", "gcloud spanner databases list"),
        ({"project": ""}, "id of a Google Cloud project", "gcloud projects list"),
        ({"endpoint": "http://spanner.example"}, "endpoint", "this machine"),
        ({"endpoint": "https://169.254.169.254"}, "link-local", ""),
        ({"endpoint": "", "login": "key"}, "no service_account_key", "gcloud iam service-accounts keys create"),
        ({"endpoint": "", "login": "key", "service_account_key": "a-secret"}, "not the JSON", "keys create"),
    ],
)
def test_what_is_wrong_with_a_destination_is_told(
    copies: SpannerCopies, changes: dict[str, str], told: str, remedy: str
) -> None:
    assert SPANNER.check is not None
    (*_, last) = SPANNER.check(copies.settings | changes)
    assert last.status is CheckStatus.FAILED
    assert re.search(told, last.detail), last
    assert re.search(remedy, last.remedy), last
    assert "a-secret" not in str(last)


def test_a_database_of_the_other_dialect_is_told(copies: SpannerCopies) -> None:
    from google.cloud.spanner_admin_database_v1 import DatabaseDialect

    assert SPANNER.check is not None
    copies.spanner.make("pg", DatabaseDialect.POSTGRESQL)
    (*_, last) = SPANNER.check(copies.settings | {"database": "pg"})
    assert (last.status, "GoogleSQL" in last.detail) == (CheckStatus.FAILED, True), last


def test_a_page_shows_figures_rows_and_what_to_paste(copies: SpannerCopies) -> None:
    assert SPANNER.report is not None
    assert SPANNER.preview is not None
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a", b"\x00\xff"), insert(1, 2, "x" * 500, None))
    report = SPANNER.report(copies.settings, NO_LAKE, table.namespace, table.name)
    assert report is not None
    assert (report.rows, report.columns) == (2, 3)
    assert [one.engine for one in report.examples] == ["Spanner Studio", "gcloud", "google-cloud-spanner"]
    assert f"`{table.namespace}`.`{table.name}`" in report.examples[0].text
    rows = SPANNER.preview(copies.settings, NO_LAKE, table, 5)
    assert rows is not None
    shown = {row[0]: row for row in map(tuple, rows.rows)}
    assert shown["1"][:3] == ("1", "a", "00ff")
    assert len(shown["2"][1]) == 201
    gone = TargetTable(table.namespace, "gone")
    assert SPANNER.report(copies.settings, NO_LAKE, gone.namespace, gone.name) is None
    assert SPANNER.preview(copies.settings, NO_LAKE, gone, 5) is None


def test_a_schema_is_dropped_with_all_that_is_in_it(copies: SpannerCopies) -> None:
    copies.table(KEYED)
    dialect = SpannerDialect(destination(copies.settings))
    with closing(dialect.connect()) as session:
        dialect.drop_schema(session, copies.namespace)
        dialect.drop_schema(session, copies.namespace)
    assert copies.tables() == set()
    assert (copies.namespace,) not in copies.query("SELECT schema_name FROM information_schema.schemata")


def test_a_place_tells_databases_apart(copies: SpannerCopies) -> None:
    one = {"project": "my-project", "instance": "i1", "database": "d1"}
    assert place(one) == "my-project/i1/d1"
    assert place(one | {"endpoint": "https://Private.example/"}) == "https://private.example/my-project/i1/d1"
    assert place({"project": "my-project"}) == ""
    assert SPANNER.dataset(copies.settings, NO_LAKE) == "spanner://tidemark-test:tidemark-instance/copies"
    with pytest.raises(ConfigurationError, match="no instance"):
        destination({"project": "my-project", "database": "d1"})
