"""What there is to know of the Iceberg target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from replicator.model.types import DataType
from replicator.sources.base import CheckResult, FormField
from replicator.sources.kind import read_guide
from replicator.targets.base import Target, TargetTable
from replicator.targets.iceberg.destination import (
    CAPABILITIES,
    CATALOG,
    DESTINATION_FORM,
    GLUE,
    HIVE,
    NO_LAKE,
    LakeCatalog,
    lake_catalog,
    place,
)
from replicator.targets.iceberg.layout import (
    BLOOM_FILTERS,
    FORMAT_VERSION,
    FORMAT_VERSIONS,
    PARTITION_BY,
    PROPERTIES,
    SORT_BY,
    Layout,
)
from replicator.targets.iceberg.table.type_names import iceberg_type
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import InspectedTable, Opening, Preview, Settings, TargetKind, TypeSupport
from replicator.targets.shared_settings import PREFIX, SHARED_EFFECTS, SHARED_FORM, check_prefix, prefixed

if TYPE_CHECKING:
    from replicator.verification import CatalogConfig

FORM = (
    FormField(
        PREFIX,
        "Namespace prefix",
        required=False,
        keeps_secret=True,
        help="Prepended to the name of each database, so that several sources can share a catalog. Letters, digits, _.",
    ),
    FormField(
        PARTITION_BY, "Partitions", "textarea", required=False, keeps_secret=True,
        help="One line per table or pattern, the first that fits counts: shop.orders: day(created_at), bucket(16,"
        " customer_id). Also year, month, hour, truncate(n, …) or a column itself. A merge writes a file for each"
        " partition that it touches; above 500 it runs in Spark and takes seconds longer.",
    ),
    FormField(
        SORT_BY, "Sort order", "textarea", required=False, keeps_secret=True,
        help="In the same form: shop.*: customer_id, created_at desc. Files that Spark writes are sorted so.",
    ),
    FormField(
        PROPERTIES, "Table properties", "textarea", required=False, keeps_secret=True,
        help="One name=value per line, for all tables.",
    ),
    FormField(
        FORMAT_VERSION, "Format version", "choice", required=False, keeps_secret=True, default="2",
        choices=tuple((one, one) for one in FORMAT_VERSIONS),
        help="3 has deletion vectors and row lineage, and needs readers that know it. Tables of version 2 are upgraded;"
        " no table goes back to 2: remove it from the replicator and add it again.",
    ),
    FormField(
        BLOOM_FILTERS, "Bloom filters", "choice", required=False, keeps_secret=True, default="no",
        choices=(("no", "no"), ("yes", "of the key's columns")),
        help="Readers that look for single keys skip files and row groups; files get larger.",
    ),
    *SHARED_FORM,
)  # fmt: skip
MAX_HIVE_NAME = 128  # characters, of what a Hive Metastore stores
EFFECTS = (
    {
        field.name: "Takes effect within a minute. The catalog must have the tables written so far."
        for field in DESTINATION_FORM
    }
    | dict.fromkeys(
        (PARTITION_BY, SORT_BY, PROPERTIES, FORMAT_VERSION, BLOOM_FILTERS),
        "Takes effect within minutes, for files that are written from then on.",
    )
    | SHARED_EFFECTS
)


def _valid(settings: Settings) -> None:
    lake_catalog(settings, NO_LAKE)
    Layout.parse(settings)
    check_prefix(settings)


def _open(opening: Opening) -> Target:
    from replicator.targets.iceberg.direct.writer import DirectLimits  # noqa: PLC0415 - as below
    from replicator.targets.iceberg.target import IcebergTarget  # noqa: PLC0415 - Spark is loaded where it is needed

    pool = opening.spark(lake_catalog(opening.config, opening.lake))
    layout = Layout.parse(opening.config)
    return IcebergTarget(pool, opening.storage, opening.replicator, DirectLimits(), opening.retention, layout)


def _check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.iceberg.check import check  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    return check(settings)


def _written(settings: Settings) -> CheckResult:
    from replicator.targets.iceberg.check import check_written  # noqa: PLC0415

    return check_written(settings)


def _report(settings: Settings, own: LakeCatalog, namespace: str, name: str) -> InspectedTable | None:
    from replicator.targets.iceberg.inspection import report  # noqa: PLC0415

    return report(lake_catalog(settings, own), namespace, name)


def _preview(settings: Settings, own: LakeCatalog, table: TargetTable, rows: int) -> Preview | None:
    from replicator.targets.iceberg.inspection import preview  # noqa: PLC0415

    return preview(lake_catalog(settings, own), table, rows)


def _verification(settings: Settings, own: LakeCatalog) -> CatalogConfig:
    from replicator.verification import CatalogConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    lake = lake_catalog(settings, own)
    return CatalogConfig(CATALOG, lake.python.get("uri", ""), lake.warehouse, lake.python)


def _clean(opening: Opening, now: float) -> int:
    from replicator.targets.iceberg.target import clean  # noqa: PLC0415

    return clean(opening, now)


def _identifiers(settings: Settings) -> IdentifierPolicy:
    """Glue and Hive know one case of each name, and no other characters than these."""
    if settings.get("catalog") not in {GLUE, HIVE}:
        return IdentifierPolicy()
    return IdentifierPolicy(max_length=MAX_HIVE_NAME, illegal=r"[^A-Za-z0-9_]", fold=str.lower)


def _dataset(settings: Settings, own: LakeCatalog) -> str:
    """The warehouse, or the REST catalog, without credentials or query."""
    lake = lake_catalog(settings, own)
    parts = urlsplit(lake.warehouse or lake.java["uri"])
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _types(kind: DataType) -> TypeSupport:
    return TypeSupport(iceberg_type(kind))


ICEBERG = TargetKind(
    "iceberg",
    "Apache Iceberg",
    "Tables in a lakehouse, readable by Spark, Trino, DuckDB, Snowflake and others: that of this installation, or one"
    " in your own catalog.",
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    namespace=prefixed,
    place=place,
    dataset=_dataset,
    form=FORM,
    destination_form=DESTINATION_FORM,
    valid=_valid,
    identifiers_at=_identifiers,
    effects=EFFECTS,
    check=_check,
    written=_written,
    report=_report,
    preview=_preview,
    clean=_clean,
    verification=_verification,
    fixed={PREFIX: "Queries use these table names."},
    test_note="The test makes a namespace with one table, writes and reads a row, and removes them again.",
    guide=read_guide(__file__),
)
