"""What a page gives to paste works as it is, once the secrets are put in."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from replicator.staging.storage import Storage
from replicator.targets.base import Create, Merge, TargetTable
from replicator.targets.iceberg.destination import LakeCatalog, lake_catalog
from replicator.targets.iceberg.inspection import preview, report
from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
from replicator.targets.iceberg.target import IcebergTarget
from testing.servers.rest_front import OAuth, RestFront
from tests.integration.lake.duckdb_reader import duckdb_with_iceberg
from tests.staged import insert, schema_of, segment
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.java_classes import java_options

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(600)]
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
SECRET = "s3cr3t-of-the-reader"
OWN = LakeCatalog({}, {})
TABLE = TargetTable("examples", 'What\'s "this"')


@pytest.fixture(params=["oauth2", "none"])
def lake(request: pytest.FixtureRequest, front: Callable[..., RestFront], tmp_path: Path) -> LakeCatalog:
    """With three rows in `TABLE`."""
    server = front(oauth=OAuth({"reader": SECRET})) if request.param == "oauth2" else front()
    settings = {"catalog": "rest", "uri": server.uri, "auth": request.param, "store": "file"}
    found = lake_catalog({**settings, "client_id": "reader", "client_secret": SECRET}, OWN)
    config = SparkConfig(spark_jars(), properties=found.java, master="local[2]", java_options=java_options())
    target, storage = (
        IcebergTarget(SparkPool(config), Storage(f"file://{tmp_path}"), "r1"),
        Storage(f"file://{tmp_path}"),
    )
    target.apply(TABLE, Create(KEYED, 1, -1, f"L{request.param}"))
    target.apply(TABLE, Merge([segment(storage, KEYED, [insert(n, n, "x") for n in range(3)])], KEYED, 2))
    return found


def test_examples_read_the_table(lake: LakeCatalog) -> None:
    found = report(lake, TABLE.namespace, TABLE.name)
    assert found is not None
    assert (found.rows, found.files, found.snapshots, found.columns) == (3, 1, 1, 2)
    shown = preview(lake, TABLE, 2)
    assert shown is not None
    assert (list(shown.columns), len(shown.rows)) == (["id", "v", "_sequence_num"], 2)
    texts = {one.engine: one.text for one in found.examples}
    assert SECRET not in str(texts)
    given = {name: _with_secrets(text) for name, text in texts.items()}
    assert sorted(_in_duckdb(given["DuckDB"])) == [(0, "x"), (1, "x"), (2, "x")]
    assert sorted(_in_spark(given["Spark"])) == [(0, "x"), (1, "x"), (2, "x")]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(given["pyiceberg"], {})
    assert re.search(r"id: \[\[.*0,1,2", out.getvalue().replace("\n", ""))


def _with_secrets(text: str) -> str:
    return text.replace("<client id>", "reader").replace("<client secret>", SECRET)


def _in_duckdb(text: str) -> list[tuple[object, ...]]:
    first, *statements = text.split("\n")
    assert first == "INSTALL iceberg; LOAD iceberg;"
    with duckdb_with_iceberg() as connection:
        for statement in statements:
            rows = connection.execute(statement)
        return [(row[0], row[1]) for row in rows.fetchall()]


def _in_spark(text: str) -> list[tuple[object, ...]]:
    """Run the query in a new session with the settings of the example's command, which is not run."""
    command, _, query = text.partition("\n\n")
    words = shlex.split(command.replace("\\\n", " "))
    session = SparkPool(SparkConfig(spark_jars(), java_options=java_options())).spark().new_session()
    for setting in (words[place + 1] for place, word in enumerate(words) if word == "--conf"):
        name, _, value = setting.partition("=")
        session.conf.set(name, value)
    return [(row[0], row[1]) for row in session.sql(query.rstrip(";")).collect()]
