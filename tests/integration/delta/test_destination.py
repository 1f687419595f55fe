"""What pages show of a Delta Lake destination and of its tables: the test, the figures, and what to paste."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import boto3
import duckdb
import duckdb_extension_delta
import pytest

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckStatus
from replicator.staging.storage import Storage
from replicator.targets.base import Drop, TargetTable
from replicator.targets.delta import inspection
from replicator.targets.delta.destination import delta_store
from replicator.targets.delta.kind import DELTA
from replicator.targets.iceberg.destination import NO_LAKE, LakeCatalog
from testing.servers.glue import EmbeddedGlue
from testing.servers.stores.azure import EmbeddedAzure
from testing.servers.stores.s3 import EmbeddedS3
from tests.integration.delta.lake import DeltaLake
from tests.staged import insert, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "b": "binary"}, ["id"])


def checked(settings: dict[str, str]) -> list[Any]:
    assert DELTA.check is not None
    return DELTA.check(settings)


def on_s3(s3: EmbeddedS3, **changes: str) -> dict[str, str]:
    endpoint = s3.environment["AWS_ENDPOINT_URL"]
    keys = {"credentials": "keys", "access_key_id": s3.user, "secret_access_key": s3.secret}
    return {"store": "s3", "location": f"{s3.url}/checked", "store_endpoint": endpoint, **keys, **changes}


def on_moto(glue: EmbeddedGlue) -> dict[str, str]:
    """moto's S3, which compares before it writes in one step."""
    client = boto3.client(
        "s3", endpoint_url=glue.endpoint, region_name=glue.region, aws_access_key_id=glue.user,
        aws_secret_access_key=glue.secret,
    )  # fmt: skip
    client.create_bucket(Bucket="checked")
    keys = {"credentials": "keys", "access_key_id": glue.user, "secret_access_key": glue.secret}
    return {"store": "s3", "location": "s3://checked/delta", "store_endpoint": glue.endpoint, **keys}


def all_is_well(settings: dict[str, str]) -> bool:
    titles = ("Privilege to create", "Privilege to write", "Privilege to read", "Conditional writes",
        "Privilege to delete")  # fmt: skip
    return [(one.title, one.status) for one in checked(settings)] == [(title, CheckStatus.OK) for title in titles]


@pytest.mark.long
def test_the_test_tries_all_in_azure(azure: EmbeddedAzure) -> None:
    keys = {"credentials": "keys", "account_name": azure.account, "account_key": azure.key}
    address = f"http://{azure.authority}"
    assert all_is_well({"store": "adls", "location": f"{azure.url}/checked", "store_endpoint": address, **keys})


def test_the_test_tries_all_and_leaves_nothing(tmp_path: Path, glue: EmbeddedGlue) -> None:
    moto = on_moto(glue)
    for settings in ({"store": "file", "location": f"file://{tmp_path}/d"}, moto):
        assert all_is_well(settings)
    assert list((tmp_path / "d").iterdir()) == []
    assert DELTA.written is not None
    assert DELTA.written(moto).status is CheckStatus.FAILED
    store = delta_store(moto, NO_LAKE)
    lake = DeltaLake(store, Storage(f"file://{tmp_path}/staging"))
    lake.table(KEYED)
    assert DELTA.written(moto).status is CheckStatus.OK


def test_a_store_that_takes_a_file_where_one_is_already_is_told(
    s3_server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3Proxy looks first and then writes, in two steps."""
    monkeypatch.setattr("replicator.targets.delta.check.ROUNDS", 30)
    found = checked(on_s3(s3_server))
    assert found[-1].status is CheckStatus.FAILED
    assert "writers write the same version" in found[-1].detail
    assert "If-None-Match" in found[-1].remedy


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"secret_access_key": "a-wrong-secret"}, "refuses the credentials|does not allow it"),
        ({"location": "s3://no-such-bucket/x"}, "bucket of s3://no-such-bucket/x does not exist"),
        ({"store_endpoint": "http://127.0.0.1:1"}, "does not answer"),
        ({"location": "gs://bucket/x"}, "must begin with s3://"),
        ({"location": ""}, "Location is missing"),
        ({"access_key_id": ""}, "Access key ID is missing"),
        ({"store_endpoint": "http://169.254.169.254"}, "link-local"),
        ({"region": "x/../y"}, "AWS region must be a name"),
    ],
)
def test_what_is_wrong_is_told_with_a_remedy_and_without_secrets(
    s3_server: EmbeddedS3, changes: dict[str, str], told: str
) -> None:
    found = checked(on_s3(s3_server, **changes))
    assert found[-1].status is CheckStatus.FAILED
    assert re.search(told, found[-1].detail), found[-1]
    assert found[-1].remedy
    shown = str(found)
    assert s3_server.secret not in shown
    assert "a-wrong-secret" not in shown


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    found = checked({"store": "file", "location": f"file://{tmp_path}/d"})
    assert "does not allow it" in found[-1].detail


def test_beside_the_lakehouse_the_location_follows_the_installations() -> None:
    own = LakeCatalog(
        {"type": "jdbc", "s3.endpoint": "http://minio:9000", "s3.region": "eu-west-1"}, {}, "s3a://b/lake"
    )
    store = delta_store({}, own)
    assert store.location == "s3://b/lake/delta"
    assert (store.options["aws_endpoint"], store.options["aws_allow_http"]) == ("http://minio:9000", "true")
    assert delta_store({}, LakeCatalog({}, {}, "file:/srv/lake")).location == "file:///srv/lake/delta"
    assert DELTA.place({}) == ""
    with pytest.raises(ConfigurationError, match="credentials"):
        delta_store({"store": "s3", "location": "s3://user:secret@bucket/x"}, NO_LAKE)


def test_what_a_form_has_left_from_another_store_means_nothing(s3_server: EmbeddedS3) -> None:
    store = delta_store(on_s3(s3_server, store="gcs", location="gs://b/x", credentials="environment"), NO_LAKE)
    assert s3_server.environment["AWS_ENDPOINT_URL"] not in str({**store.options, **store.files})


def test_a_tables_page_has_its_figures_and_rows(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    for n in range(18):
        lake.merge(table, KEYED, insert(n, n, f"v{n}" * 100, bytes([n])))
    lake.merge(table, KEYED, update(20, (1, "", b""), (1, "new", None)))
    report = inspection.report(lake.store, table)
    assert report is not None
    assert (report.rows, report.files, report.columns, report.snapshots) == (18, 18, 3, 20)
    assert report.bytes == sum((lake.folder(table) / one).stat().st_size for one in lake.live_files(table))
    assert report.compacted_at is None
    assert report.committed_at is not None
    lake.target.maintain(table)
    report = inspection.report(lake.store, table)
    assert report is not None
    assert (report.rows, report.files) == (18, 1)
    assert report.compacted_at is not None
    shown = inspection.preview(lake.store, table, 5)
    assert shown is not None
    assert (list(shown.columns), len(shown.rows)) == (["id", "v", "b", "_sequence_num"], 5)
    everything = inspection.preview(lake.store, table, 50)
    assert everything is not None
    by_id = {row[0]: row for row in everything.rows}
    assert by_id["1"][1:3] == ["new", None]
    assert by_id["2"][2] == "02"
    assert by_id["2"][1] == ("v2" * 100)[:200]
    assert inspection.report(lake.store, TargetTable("shop", "none")) is None
    lake.target.apply(table, Drop())
    assert inspection.report(lake.store, table) is None
    assert inspection.preview(lake.store, table, 5) is None


def test_examples_have_no_secret_and_read_the_table(lake: DeltaLake) -> None:
    table = lake.table(KEYED, 'o\'clock "x"')
    lake.merge(table, KEYED, *[insert(n, n, "x", b"y") for n in range(3)])
    texts = {one.engine: one.text for one in inspection.examples(lake.store, table)}
    assert list(texts) == ["Spark", "DuckDB", "deltalake", "Polars", "Trino", "Databricks", "Snowflake"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(texts["deltalake"], {})
    assert "Int32" in out.getvalue()
    assert out.getvalue().count("\n| ") >= 3
    secret = {"store": "s3", "location": "s3://bucket/x", "credentials": "keys", "access_key_id": "AKIA-own",
        "secret_access_key": "s3cr3t-and-unique", "store_endpoint": "https://minio:9000"}  # fmt: skip
    for one in inspection.examples(delta_store(secret, NO_LAKE), table):
        assert "s3cr3t-and-unique" not in one.text
        assert "AKIA-own" not in one.text
        assert "retry_timeout" not in one.text


def test_the_example_of_duckdb_reads_the_table(lake: DeltaLake) -> None:
    table = lake.table(KEYED)
    lake.merge(table, KEYED, *[insert(n, n, "x", b"y") for n in range(3)])
    text = next(one.text for one in inspection.examples(lake.store, table) if one.engine == "DuckDB")
    first, *statements = text.split("\n")
    assert first == "INSTALL delta; LOAD delta;"
    (extension,) = Path(str(duckdb_extension_delta.__file__)).parent.rglob("*.duckdb_extension")
    with duckdb.connect() as connection:
        connection.load_extension(str(extension))
        for statement in statements:
            rows = connection.execute(statement)
        assert sorted((row[0], row[1]) for row in rows.fetchall()) == [(0, "x"), (1, "x"), (2, "x")]
