"""What there is to know of the Delta Lake target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator.model.types import DataType, Kind
from replicator.sources.base import CheckResult, FormField
from replicator.sources.kind import read_guide
from replicator.targets.base import Target, TargetTable
from replicator.targets.delta.destination import CAPABILITIES, DESTINATION_FORM, delta_store, place
from replicator.targets.delta.names import delta_type
from replicator.targets.iceberg.destination import NO_LAKE, LakeCatalog
from replicator.targets.kind import PARTIAL, InspectedTable, Opening, Preview, Settings, TargetKind, TypeSupport
from replicator.targets.shared_settings import PREFIX, SHARED_EFFECTS, SHARED_FORM, check_prefix, prefixed

if TYPE_CHECKING:
    from replicator.verification import DeltaConfig

FORM = (
    FormField(
        PREFIX,
        "Folder prefix",
        required=False,
        keeps_secret=True,
        help="Prepended to the name of each database, so that several sources can share a location.",
    ),
    *SHARED_FORM,
)
NTZ_NOTE = "Readers must know the table feature timestampNtz: Delta Lake 3.0, reader version 3."


def _types(kind: DataType) -> TypeSupport:
    note = NTZ_NOTE if kind.kind is Kind.TIMESTAMP_NTZ else ""
    return TypeSupport(delta_type(kind), PARTIAL if note else "full", note)


def _valid(settings: Settings) -> None:
    delta_store(settings, NO_LAKE)
    check_prefix(settings)


def _open(opening: Opening) -> Target:
    from replicator.targets.delta.target import DeltaTarget  # noqa: PLC0415 - delta-rs is loaded where it is needed

    store = delta_store(opening.config, opening.lake)
    return DeltaTarget(store, opening.storage, opening.replicator, opening.retention)


def _dataset(settings: Settings, own: LakeCatalog) -> str:
    return delta_store(settings, own).location


def _check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.delta.check import check  # noqa: PLC0415 - delta-rs is loaded where it is needed

    return check(settings)


def _written(settings: Settings) -> CheckResult:
    from replicator.targets.delta.check import check_written  # noqa: PLC0415

    return check_written(settings)


def _report(settings: Settings, own: LakeCatalog, namespace: str, name: str) -> InspectedTable | None:
    from replicator.targets.delta.inspection import report  # noqa: PLC0415

    return report(delta_store(settings, own), TargetTable(namespace, name))


def _preview(settings: Settings, own: LakeCatalog, table: TargetTable, rows: int) -> Preview | None:
    from replicator.targets.delta.inspection import preview  # noqa: PLC0415

    return preview(delta_store(settings, own), table, rows)


def _verification(settings: Settings, own: LakeCatalog) -> DeltaConfig:
    from replicator.verification import DeltaConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    store = delta_store(settings, own)
    return DeltaConfig(lambda namespace, name: store.uri(TargetTable(namespace, name)), store.options)


def _clean(opening: Opening, now: float) -> int:
    from replicator.targets.delta.dropped_tables import delete_due  # noqa: PLC0415

    return delete_due(delta_store(opening.config, opening.lake), now)


DELTA = TargetKind(
    "delta",
    "Delta Lake",
    "Delta tables in folders of an object store, readable by Spark, Databricks, DuckDB, Trino, Snowflake and others.",
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    namespace=prefixed,
    place=place,
    dataset=_dataset,
    form=FORM,
    destination_form=DESTINATION_FORM,
    valid=_valid,
    fixed={PREFIX: "Queries use these table names."},
    effects={one.name: "Takes effect within a minute. The location must have the tables written so far."
        for one in DESTINATION_FORM} | SHARED_EFFECTS,
    check=_check,
    written=_written,
    report=_report,
    preview=_preview,
    clean=_clean,
    verification=_verification,
    test_note="The test creates a table in a temporary folder, writes and reads a row, and deletes the folder.",
    guide=read_guide(__file__),
)  # fmt: skip
