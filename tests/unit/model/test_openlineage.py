"""OpenLineage events: what they say, and that the published JSON schemas accept every one of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DATE, INT, STRING
from replicator.sources.registry import KINDS
from replicator.targets.iceberg.table.type_names import iceberg_type
from replicator.telemetry.differences import Definition
from replicator.telemetry.lineage import fields
from replicator.telemetry.openlineage import (
    SCHEMAS,
    Copy,
    Dataset,
    EventType,
    Job,
    LineageRun,
    RunOutcome,
    run_event,
    source_dataset,
)

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
SPEC = Path(__file__).parents[2] / "openlineage"


def copy() -> Copy:
    columns = (
        Column("id", INT, nullable=False, source_type="int(11)"),
        Column("name", STRING, nullable=True, source_type="varchar(40)"),
        Column("born", DATE, nullable=True, source_type="date"),
    )
    schema = TableSchema(TableId("shop", "customers"), columns, ("id",))
    definition = Definition(1, schema, left_out=frozenset({"ssn"}))
    lines = fields([definition], 1, target_type=iceberg_type)
    source = source_dataset(KINDS["mysql"], {"host": "db", "port": 3306}, TableId("shop", "customers"), "shop db")
    return Copy(source, Dataset("s3://lake/warehouse", "shop.customers", "iceberg", "s3://lake/warehouse"), lines)


def event(kind: EventType, **outcome: Any) -> dict[str, Any]:
    job = Job("tidemark", "shop.shop.customers.merge", "MERGE")
    return run_event(kind, AT, LineageRun("merge:1:x", RunOutcome(**outcome)), job, copy())


def test_each_target_column_names_the_one_source_column_it_comes_from() -> None:
    output = event(EventType.COMPLETE, rows=12)["outputs"][0]
    lineage = output["facets"]["columnLineage"]["fields"]
    assert set(lineage) == {"id", "name", "born"}  # not Tidemark's own, nor one that is left out
    (source,) = lineage["name"]["inputFields"]
    assert (source["namespace"], source["name"], source["field"]) == ("mysql://db:3306", "shop.customers", "name")
    assert source["transformations"][0]["subtype"] == "IDENTITY"
    (born,) = lineage["born"]["inputFields"]
    assert born["transformations"][0]["subtype"] == "TRANSFORMATION"
    assert "becomes null" in born["transformations"][0]["description"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 12
    assert [one["name"] for one in output["facets"]["schema"]["fields"]] == ["id", "name", "born", "_sequence_num"]


def test_names_follow_the_conventions_of_each_source() -> None:
    postgres = source_dataset(
        KINDS["postgres"], {"host": "pg", "port": "5432", "database": "erp"}, TableId("public", "t"), "erp"
    )
    assert (postgres.namespace, postgres.name) == ("postgres://pg:5432", "erp.public.t")
    mysql = source_dataset(
        KINDS["mysql"], {"host": "db", "port": 3306, "user": "u", "password": "p"}, TableId("shop", "t"), "x"
    )
    assert (mysql.namespace, mysql.name, mysql.uri) == ("mysql://db:3306", "shop.t", "mysql://db:3306")


def test_events_of_one_run_have_one_id_and_another_run_another() -> None:
    start, end = event(EventType.START), event(EventType.FAIL, error="it broke")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert LineageRun("merge:1:y").id != start["run"]["runId"]
    assert end["run"]["facets"]["errorMessage"]["message"] == "it broke"
    assert "facets" not in start["inputs"][0]


@pytest.fixture(scope="module")
def validators() -> dict[str, Any]:
    """By schema URL; the published files, with references among them resolved."""
    documents = [json.loads(path.read_text()) for path in sorted(SPEC.glob("*.json"))]
    registry: Registry[Any] = Registry().with_resources(
        [(one["$id"], Resource.from_contents(one)) for one in documents]
    )
    urls = [*SCHEMAS.values(), "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"]
    return {url: Draft202012Validator({"$ref": url}, registry=registry, format_checker=FormatChecker()) for url in urls}


def facets_of(made: dict[str, Any]) -> list[dict[str, Any]]:
    found = [*made["run"]["facets"].values(), *made["job"]["facets"].values()]
    for dataset in (*made["inputs"], *made["outputs"]):
        found += [*dataset.get("facets", {}).values(), *dataset.get("outputFacets", {}).values()]
    return found


@pytest.mark.parametrize("kind", list(EventType))
def test_the_published_schemas_accept_every_event_and_facet(validators: dict[str, Any], kind: EventType) -> None:
    made = json.loads(json.dumps(event(kind, rows=3, error="x" if kind is EventType.FAIL else "")))
    validators[made["schemaURL"]].validate(made)
    for facet in facets_of(made):
        validators[facet["_schemaURL"]].validate(facet)
    assert {facet["_schemaURL"] for facet in facets_of(made)} <= set(SCHEMAS.values())


def test_the_published_schemas_would_refuse_a_wrong_one(validators: dict[str, Any]) -> None:
    made = event(EventType.COMPLETE)
    facet = made["outputs"][0]["facets"]["columnLineage"]
    del facet["fields"]["id"]["inputFields"]
    assert not validators[facet["_schemaURL"]].is_valid(facet)
    made["run"]["runId"] = 12
    assert not validators[made["schemaURL"]].is_valid(made)
