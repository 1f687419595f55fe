"""What there is to know of the BigQuery target without opening one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator.model.types import DataType, Kind
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target
from replicator.targets.bigquery.config import DESTINATION_FORM, BigQueryDestination, destination, place
from replicator.targets.bigquery.names import bigquery_type, refused_column
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import Opening, Settings, TypeSupport
from replicator.targets.warehouse.kind import CheckModule, Inspection, database_kind

if TYPE_CHECKING:
    from replicator.verification import BigQueryConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
IDENTIFIERS = IdentifierPolicy(illegal=r"[^A-Za-z0-9_]", reserved=frozenset({"INFORMATION_SCHEMA"}))
PROOF = (
    "Preview: tested with Google’s own client against a stand-in, not against BigQuery. Not tested: sign-in at Google,"
    " roles, quotas and slots, how long its transactions take and when they conflict, its limits of size, its speed and"
    " cost."
)
NOTES = {
    Kind.STRING: "A text of more than 10 MiB stops the table.",
    Kind.BINARY: "A value of more than 10 MiB stops the table.",
    Kind.INT: "BigQuery has integers of 64 bits only; the value is the same.",
    Kind.FLOAT: "BigQuery has floats of 64 bits only; the value is the same.",
    Kind.TIMESTAMP_NTZ: "Date and time without a zone.",
}


def _types(kind: DataType) -> TypeSupport:
    return TypeSupport(bigquery_type(kind), note=NOTES.get(kind.kind, ""))


def _open(opening: Opening) -> Target:
    from replicator.targets.bigquery.dialect import BigQueryDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    to = destination(opening.config)
    can = replace(CAPABILITIES, commit_seconds=to.commit_seconds)
    return WarehouseTarget(BigQueryDialect(to), can, opening.storage, opening.replicator)


def _dataset(settings: Settings) -> str:
    """OpenLineage's name of BigQuery, and the project (openlineage.io/docs/spec/naming)."""
    return f"bigquery/{destination(settings).project}"


def _modules() -> tuple[CheckModule, Inspection[BigQueryDestination]]:
    from replicator.targets.bigquery import check, inspection  # noqa: PLC0415 - the client is loaded where it is needed

    return check, inspection


def _verification(settings: Settings) -> BigQueryConfig:
    from replicator.targets.bigquery.config import SCOPES  # noqa: PLC0415
    from replicator.targets.google_login import credentials  # noqa: PLC0415
    from replicator.verification import BigQueryConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    to = destination(settings)
    return BigQueryConfig(to.project, to.location, to.endpoint, credentials(to.login, SCOPES))


BIGQUERY = database_kind(
    "bigquery",
    "Google BigQuery",
    "Tables in the datasets of a Google Cloud project.",
    refused_column=refused_column,
    proof=PROOF,
    destination=destination,
    modules=_modules,
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    place=place,
    dataset=_dataset,
    destination_form=DESTINATION_FORM,
    identifiers=IDENTIFIERS,
    holder="project",
    verification=_verification,
    test_note="The test makes a dataset and a table, writes and reads a row, and drops both.",
    guide=read_guide(__file__),
)
