"""What there is to know of the Iceberg target without opening one."""

from __future__ import annotations

from urllib.parse import urlsplit

from replicator.errors import ConfigurationError
from replicator.model.types import DataType
from replicator.sources.base import FormField
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target
from replicator.targets.iceberg.table.type_names import iceberg_type
from replicator.targets.kind import Opening, Settings, TargetKind, TypeSupport

MAX_PREFIX_LENGTH = 100  # with a database's name behind it, it must fit where a namespace is stored
FORM = (
    FormField(
        "namespace_prefix",
        "Namespace prefix",
        required=False,
        keeps_secret=True,
        help="Prepended to the name of each database, so that several sources can share a catalog. Letters, digits, _.",
    ),
)
CAPABILITIES = Capabilities(jvm=True, upkeep=True, verified=True)


def _valid(settings: Settings) -> None:
    prefix = str(settings.get("namespace_prefix", ""))
    if len(prefix) > MAX_PREFIX_LENGTH:
        raise ConfigurationError(
            f"target: namespace_prefix must be a string of at most {MAX_PREFIX_LENGTH} characters."
        )


def _open(opening: Opening) -> Target:
    from replicator.targets.iceberg.target import IcebergTarget  # noqa: PLC0415 - Spark is loaded where it is needed

    return IcebergTarget(opening.spark(), opening.storage, opening.replicator, retention=opening.retention)


def _dataset(settings: Settings, warehouse: str) -> str:
    """The warehouse without credentials or query."""
    del settings
    parts = urlsplit(warehouse)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _types(kind: DataType) -> TypeSupport:
    return TypeSupport(iceberg_type(kind))


ICEBERG = TargetKind(
    "iceberg",
    "Apache Iceberg",
    "Tables in the lakehouse of this installation, readable by Spark, Trino, DuckDB and others.",
    open=_open,
    capabilities=CAPABILITIES,
    types=_types,
    namespace=lambda settings, database: f"{settings.get('namespace_prefix', '')}{database}",
    place=lambda _: "",
    dataset=_dataset,
    form=FORM,
    valid=_valid,
    fixed={"namespace_prefix": "Queries use these table names."},
    guide=read_guide(__file__),
)
