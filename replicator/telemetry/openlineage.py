"""OpenLineage run events of table copies, with the column lineage facet (openlineage.io/spec, 2-0-2).

Plain values in, JSON-able values out; who sends them, and when, is the control plane's.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from replicator.model.identifiers import TableId
from replicator.sources.kind import SourceKind
from replicator.telemetry.lineage import FieldLine

PRODUCER = "urn:tidemark:0.1.0"
SPEC = "https://openlineage.io/spec"
RUN_EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
SCHEMAS = {
    "schema": f"{SPEC}/facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet",
    "dataSource": f"{SPEC}/facets/1-0-1/DatasourceDatasetFacet.json#/$defs/DatasourceDatasetFacet",
    "columnLineage": f"{SPEC}/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet",
    "outputStatistics": (
        f"{SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"
    ),
    "errorMessage": f"{SPEC}/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet",
    "processing_engine": f"{SPEC}/facets/1-1-1/ProcessingEngineRunFacet.json#/$defs/ProcessingEngineRunFacet",
    "jobType": f"{SPEC}/facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet",
}
_RUNS = uuid.UUID("6f0a3c1e-8f0d-5c7b-9c39-7b1f5a6f2d11")  # namespace of our run ids


class EventType(StrEnum):
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True)
class Dataset:
    """One side.  namespace and name follow openlineage.io/docs/spec/naming; `uri` holds no credentials."""

    namespace: str
    name: str
    source_name: str
    uri: str


@dataclass(frozen=True)
class Copy:
    """What a run copies: from, to, and field by field how."""

    source: Dataset
    target: Dataset
    lines: Sequence[FieldLine] = ()


@dataclass(frozen=True)
class Job:
    """`kind` is SNAPSHOT or MERGE."""

    namespace: str
    name: str
    kind: str


@dataclass(frozen=True)
class RunOutcome:
    """Of a run that is over; `error` in words, empty for none."""

    rows: int | None = None
    error: str = ""


@dataclass(frozen=True)
class LineageRun:
    """`identity` is the same for every event of the run, regardless of who sends it and how often."""

    identity: str
    outcome: RunOutcome = field(default_factory=RunOutcome)

    @property
    def id(self) -> str:
        return str(uuid.uuid5(_RUNS, self.identity))


def source_dataset(kind: SourceKind, config: Mapping[str, Any], table: TableId, name: str) -> Dataset:
    """As the kind names it.  name: the connection's, for people."""
    namespace, path = kind.dataset(config, table)
    return Dataset(namespace, path, name, namespace)


def run_event(kind: EventType, at: datetime, run: LineageRun, job: Job, copy: Copy) -> dict[str, Any]:
    """A RunEvent.  START names the datasets; what ends the run describes them in full."""
    over = kind is not EventType.START
    return {
        "eventType": kind.value,
        "eventTime": at.astimezone(UTC).isoformat(),
        "producer": PRODUCER,
        "schemaURL": RUN_EVENT,
        "run": {"runId": run.id, "facets": _run_facets(run.outcome)},
        "job": {"namespace": job.namespace, "name": job.name, "facets": _job_facets(job)},
        "inputs": [_named(copy.source) | ({"facets": _input_facets(copy)} if over else {})],
        "outputs": [_named(copy.target) | (_output(copy, run.outcome) if over else {})],
    }


def _facet(kind: str, /, **values: Any) -> dict[str, dict[str, Any]]:
    return {kind: {"_producer": PRODUCER, "_schemaURL": SCHEMAS[kind], **values}}


def _named(dataset: Dataset) -> dict[str, Any]:
    return {"namespace": dataset.namespace, "name": dataset.name}


def _run_facets(outcome: RunOutcome) -> dict[str, Any]:
    version = PRODUCER.rpartition(":")[2]
    facets = _facet("processing_engine", version=version, name="tidemark", openlineageAdapterVersion=version)
    if outcome.error:
        facets |= _facet("errorMessage", message=outcome.error, programmingLanguage="PYTHON")
    return facets


def _job_facets(job: Job) -> dict[str, Any]:
    processing = "BATCH" if job.kind == "SNAPSHOT" else "STREAMING"
    return _facet("jobType", processingType=processing, integration="TIDEMARK", jobType=job.kind)


def _input_facets(copy: Copy) -> dict[str, Any]:
    columns = [
        {"name": line.source, "type": line.source_type, "ordinal_position": place}
        for place, line in enumerate((one for one in copy.lines if one.source and one.source_type), 1)
    ]
    return _facet("schema", fields=columns) | _source(copy.source)


def _output(copy: Copy, outcome: RunOutcome) -> dict[str, Any]:
    columns = [
        {"name": line.target, "type": line.target_type, "ordinal_position": place}
        for place, line in enumerate((one for one in copy.lines if one.target), 1)
    ]
    facets = _facet("schema", fields=columns) | _source(copy.target)
    facets |= _facet("columnLineage", fields=_column_lineage(copy))
    statistics = {} if outcome.rows is None else _facet("outputStatistics", rowCount=outcome.rows)
    return {"facets": facets, "outputFacets": statistics}


def _source(dataset: Dataset) -> dict[str, Any]:
    return _facet("dataSource", name=dataset.source_name, uri=dataset.uri)


def _column_lineage(copy: Copy) -> dict[str, Any]:
    """Every column that both sides have, each from exactly one."""
    return {
        line.target: {"inputFields": [{**_named(copy.source), "field": line.source, "transformations": [_how(line)]}]}
        for line in copy.lines
        if line.source and line.target
    }


def _how(line: FieldLine) -> dict[str, Any]:
    """IDENTITY where every value is the source's own; TRANSFORMATION where a policy or a warning speaks of some, or a
    mask hides them.
    """
    types = f"{line.source_type} → {line.type} → {line.target_type}"
    return {
        "type": "DIRECT",
        "subtype": "TRANSFORMATION" if line.notes else "IDENTITY",
        "description": "; ".join((types, *line.notes)),
        "masking": line.masked,
    }
