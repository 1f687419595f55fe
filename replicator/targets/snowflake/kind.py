"""What there is to know of the Snowflake target without opening one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator.model.types import DataType, Kind
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import NONE, Opening, Settings, TypeSupport
from replicator.targets.snowflake.config import DESTINATION_FORM, SnowflakeDestination, destination, place
from replicator.targets.snowflake.dialect import refused_column
from replicator.targets.snowflake.names import MAX_SCALE, snowflake_type
from replicator.targets.warehouse.kind import CheckModule, Inspection, database_kind

if TYPE_CHECKING:
    from replicator.verification import SnowflakeConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
IDENTIFIERS = IdentifierPolicy(illegal=r"\0", reserved=frozenset({"INFORMATION_SCHEMA"}))
PROOF = (
    "Preview: tested with Snowflake’s own client against an emulator, not against Snowflake. Not tested: sign-in, roles"
    " and grants, warehouses that suspend, locks and time limits of its transactions, its limits of size, its speed"
    " and cost."
)
NOTES = {
    Kind.STRING: "A text of more than 16 MiB stops the table.",
    Kind.BINARY: "A value of more than 8 MiB stops the table.",
    Kind.FLOAT: "Snowflake has floats of 64 bits only; the value is the same.",
    Kind.TIMESTAMP: "An instant, which a session shows in its own time zone.",
}


def _types(kind: DataType) -> TypeSupport:
    if kind.kind is Kind.DECIMAL and kind.scale > MAX_SCALE:
        return TypeSupport(
            f"NUMBER({kind.precision},{MAX_SCALE})", NONE, f"Snowflake has at most {MAX_SCALE} decimal places."
        )
    return TypeSupport(snowflake_type(kind), note=NOTES.get(kind.kind, ""))


def _open(opening: Opening) -> Target:
    from replicator.targets.snowflake.dialect import SnowflakeDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    one = destination(opening.config)
    can = replace(CAPABILITIES, commit_seconds=one.commit_seconds)
    return WarehouseTarget(SnowflakeDialect(one), can, opening.storage, opening.replicator)


def _dataset(settings: Settings) -> str:
    """OpenLineage's name of a Snowflake account, and the database (openlineage.io/docs/spec/naming)."""
    account, _, database = place(settings).rpartition("/")
    return f"snowflake://{account}/{database}"


def _modules() -> tuple[CheckModule, Inspection[SnowflakeDestination]]:
    from replicator.targets.snowflake import check, inspection  # noqa: PLC0415 - the client is loaded where it is needed

    return check, inspection


def _verification(settings: Settings) -> SnowflakeConfig:
    from replicator.targets.snowflake.connection import client_options  # noqa: PLC0415
    from replicator.verification import SnowflakeConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    one = destination(settings)
    return SnowflakeConfig(one.database, client_options(one))


SNOWFLAKE = database_kind(
    "snowflake",
    "Snowflake",
    "Tables in the schemas of a Snowflake database.",
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
    verification=_verification,
    test_note="The test makes a schema and a table, writes and reads a row, and drops both. It wakes the warehouse.",
    guide=read_guide(__file__),
)
