"""What there is to know of the BigQuery target without opening one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator.model.types import DataType, Kind
from replicator.sources.base import CheckResult
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target, TargetTable
from replicator.targets.bigquery.config import DESTINATION_FORM, destination, place
from replicator.targets.bigquery.names import bigquery_type, refused_column
from replicator.targets.iceberg.destination import LakeCatalog
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import Opening, Preview, Settings, TableReport, TargetKind, TypeSupport
from replicator.targets.shared_settings import SHARED_EFFECTS, check_prefix, prefixed
from replicator.targets.warehouse.form import FIXED, FORM

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


def _valid(settings: Settings) -> None:
    destination(settings)
    check_prefix(settings)


def _open(opening: Opening) -> Target:
    from replicator.targets.bigquery.dialect import BigQueryDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    to = destination(opening.config)
    can = replace(CAPABILITIES, commit_seconds=to.commit_seconds)
    return WarehouseTarget(BigQueryDialect(to), can, opening.storage, opening.replicator)


def _dataset(settings: Settings, own: LakeCatalog) -> str:
    """OpenLineage's name of BigQuery, and the project (openlineage.io/docs/spec/naming)."""
    del own
    return f"bigquery/{destination(settings).project}"


def _check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.bigquery.check import check  # noqa: PLC0415

    return check(settings)


def _written(settings: Settings) -> CheckResult:
    from replicator.targets.bigquery.check import check_written  # noqa: PLC0415

    return check_written(settings)


def _report(settings: Settings, own: LakeCatalog, namespace: str, name: str) -> TableReport | None:
    from replicator.targets.bigquery.inspection import report  # noqa: PLC0415

    del own
    return report(destination(settings), TargetTable(namespace, name))


def _preview(settings: Settings, own: LakeCatalog, table: TargetTable, rows: int) -> Preview | None:
    from replicator.targets.bigquery.inspection import preview  # noqa: PLC0415

    del own
    return preview(destination(settings), table, rows)


def _verification(settings: Settings, own: LakeCatalog) -> BigQueryConfig:
    from replicator.targets.bigquery.config import SCOPES  # noqa: PLC0415
    from replicator.targets.google_login import credentials  # noqa: PLC0415
    from replicator.verification import BigQueryConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    del own
    to = destination(settings)
    return BigQueryConfig(to.project, to.location, to.endpoint, credentials(to.login, SCOPES))


BIGQUERY = TargetKind(
    "bigquery",
    "Google BigQuery",
    "Tables in the datasets of a Google Cloud project.",
    refused_column=refused_column,
    proof=PROOF,
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    namespace=prefixed,
    place=place,
    dataset=_dataset,
    form=FORM,
    destination_form=DESTINATION_FORM,
    valid=_valid,
    identifiers=IDENTIFIERS,
    fixed=FIXED,
    effects={one.name: "Takes effect within a minute. The project must have the tables written so far."
        for one in DESTINATION_FORM} | SHARED_EFFECTS,
    check=_check,
    written=_written,
    report=_report,
    preview=_preview,
    verification=_verification,
    test_note="The test makes a dataset and a table, writes and reads a row, and drops both.",
    guide=read_guide(__file__),
)  # fmt: skip
