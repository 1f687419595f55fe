"""What a destination's settings become, and what they must not."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.errors import ConfigurationError
from replicator.redaction import redacted
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.destination import DESTINATION_FORM, LakeCatalog, bundles_of, lake_catalog, place
from replicator.targets.iceberg.kind import ICEBERG
from replicator.targets.iceberg.query_examples import examples
from replicator.targets.iceberg.table.location import location_beside

OWN = LakeCatalog({"type": "jdbc", "uri": "jdbc:postgresql://h/d"}, {"type": "sql"}, "file:///lake")
REST = {"catalog": "rest", "uri": "https://c.example/api", "warehouse": "w"}
SECRETS = {
    "client_secret": "SECRET-client", "token": "SECRET-token", "password": "SECRET-password",
    "secret_access_key": "SECRET-aws", "account_key": "SECRET-azure",
}  # fmt: skip
EACH: dict[str, dict[str, Any]] = {
    "oauth": {**REST, "auth": "oauth2", "client_id": "me", "store": "s3", "credentials": "vended"},
    "token": {**REST, "auth": "token", "store": "gcs"},
    "sigv4": {**REST, "auth": "sigv4", "credentials": "keys", "access_key_id": "AK", "region": "eu-west-1"},
    "none": {**REST, "auth": "none", "store": "file"},
    "glue": {"catalog": "glue", "warehouse": "s3://b/lake", "glue_id": "1", "role_arn": "arn:aws:iam::1:role/t"},
    "hive": {"catalog": "hive", "uri": "thrift://h:9083", "warehouse": "s3://b/lake", "store_endpoint": "http://m:9000",
        "credentials": "keys", "access_key_id": "AK"},
    "jdbc": {"catalog": "jdbc", "uri": "postgresql://h:5432/d?sslmode=require", "username": "u", "warehouse":
        "abfss://c@a.dfs.core.windows.net/lake", "store": "adls", "credentials": "keys", "account_name": "a"},
}  # fmt: skip


@pytest.mark.parametrize("name", EACH)
def test_both_clients_are_told_the_same_and_examples_hold_no_secret(name: str) -> None:
    settings = {**EACH[name], **SECRETS}
    lake = lake_catalog(settings, OWN)
    assert (lake.python["type"], lake.java["type"]) in {
        ("rest", "rest"),
        ("glue", "glue"),
        ("hive", "hive"),
        ("sql", "jdbc"),
    }
    assert bundles_of(EACH[name]) == lake.bundles
    assert "SECRET-" not in repr(lake)
    assert "SECRET-" not in place(settings)
    shown = "\n".join(one.text for one in examples(lake, 'a"b', "t`x", "s3://b/lake/t/metadata/1.metadata.json"))
    assert "SECRET-" not in shown
    assert "AK" not in shown.replace("LAKE", "")
    assert (settings.get("uri", "").partition("?")[0].removeprefix("postgresql://")) in shown
    assert '"a""b"' in shown
    assert "`t``x`" in shown
    told = " ".join(f"{key}={value}" for key, value in (*lake.java.items(), *lake.python.items()))
    assert "SECRET-" not in redacted(told)


def test_only_what_is_wanted_is_asked_of_a_catalog() -> None:
    vended, own = (
        lake_catalog({**EACH["oauth"], **SECRETS, "credentials": one}, OWN) for one in ("vended", "environment")
    )
    header = "header.X-Iceberg-Access-Delegation"
    assert (vended.java[header], vended.python[header]) == ("vended-credentials",) * 2
    assert header not in own.java
    assert own.python[header] == ""
    assert lake_catalog({}, OWN) is OWN
    assert {tuple(sorted(lake_catalog({**one, **SECRETS}, OWN).bundles)) for one in EACH.values()} == {
        ("aws",), ("gcp",), (), ("azure",)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({**EACH["sigv4"], "region": "evil.example/#"}, "AWS region"),
        ({**REST, "uri": ""}, "Catalog address is missing"),
        ({**REST, "uri": "ftp://h"}, "must be a URL"),
        ({**REST, "uri": "https://u:p@h/"}, "must not contain credentials"),
        ({**REST, "uri": "http://[fe80::1]/"}, "link-local"),
        ({**REST, "auth": "none", "store_endpoint": "http://169.254.169.254"}, "link-local"),
        ({**EACH["glue"], "credentials": "keys", "access_key_id": "AK"}, "workers' own"),
        ({**EACH["hive"], "credentials": "vended"}, "Only REST catalogs vend"),
        ({**EACH["hive"], "warehouse": "gs://b"}, "must begin with s3://"),
        ({**EACH["hive"], "warehouse": ""}, "Warehouse is missing"),
        ({**EACH["hive"], "access_key_id": ""}, "Access key ID is missing"),
        ({**EACH["jdbc"], "uri": "postgresql://h"}, "name of the database"),
        ({**EACH["jdbc"], "uri": "postgresql://h/d?socketFactory=x"}, "not allowed"),
        ({**EACH["oauth"], "oauth2_server_uri": "file:///etc"}, "Token endpoint"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        lake_catalog({**SECRETS, **settings}, OWN)


def test_a_secret_goes_only_where_it_was_entered_for() -> None:
    """Fields that say where or how a secret is sent ask for it again (invariant 8)."""
    keeps = {field.name for field in DESTINATION_FORM if field.keeps_secret}
    assert not keeps
    assert {field.name for field in DESTINATION_FORM if field.secret} == set(SECRETS)


def test_names_are_what_glue_and_hive_can_have() -> None:
    legal = ICEBERG.at({"catalog": "glue"}).identifiers.legal
    assert legal("orders") == "orders"
    assert legal("Orders").startswith("orders_")
    assert legal("a.b") != legal("a b")
    assert ICEBERG.at({"catalog": "rest"}).identifiers.legal("Orders") == "Orders"


@pytest.mark.parametrize(
    ("default", "place"),
    [
        ("s3://b/wh/a#b/#t", "s3://b/wh/a_b/t-"),
        ("s3://b/wh/a#b/#t/", "s3://b/wh/a_b/t-"),
        ("file:///wh/other/#t", "file:///wh/other/t-"),
        ("s3://b/0a1b", "s3://b/0a1b-"),
    ],
)
def test_a_table_has_a_folder_of_its_own_where_the_catalog_wants_it(default: str, place: str) -> None:
    found = [location_beside(default, TargetTable("a#b", "#t")) for _ in range(2)]
    assert [one[:-12] for one in found] == [place, place]
    assert found[0] != found[1]
