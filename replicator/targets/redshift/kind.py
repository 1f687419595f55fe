"""What there is to know of the Redshift target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from replicator.model.types import DataType, Kind
from replicator.sources.kind import read_guide
from replicator.targets.base import Capabilities, Target
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import NONE, Opening, Settings, TypeSupport
from replicator.targets.redshift.config import DESTINATION_FORM, RedshiftDestination, destination, place
from replicator.targets.redshift.sql import (
    MAX_BYTES,
    MAX_NAME,
    MAX_SCALE,
    MAX_TEXT_BYTES,
    redshift_type,
    refused_column,
)
from replicator.targets.warehouse.kind import CheckModule, Inspection, database_kind

if TYPE_CHECKING:
    from replicator.verification import RedshiftConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
IDENTIFIERS = IdentifierPolicy(
    max_bytes=MAX_NAME,
    illegal=r'["\0-\x1f\x7f]',
    fold=str.lower,
    reserved=frozenset({"information_schema", "pg_catalog", "pg_internal", "pg_temp", "pg_toast", "catalog_history"}),
)
PROOF = (
    "Preview: tested with Amazon’s own client on a stand-in (PostgreSQL with serializable transactions and without"
    " keys, and an S3 server), not on Amazon Redshift. Not tested:"
    " Redshift’s own SQL engine, COPY, IAM roles and logins, TLS to it, serverless, speed and cost."
)
NOTES = {
    Kind.STRING: f"A text of more than {MAX_TEXT_BYTES:,} bytes in UTF-8, or with a NUL character, stops the table."
    " JSON is a text: JSON_PARSE makes a SUPER of it.",
    Kind.BINARY: f"A value of more than {MAX_BYTES:,} bytes stops the table.",
}


def _types(kind: DataType) -> TypeSupport:
    if kind.scale > MAX_SCALE:
        return TypeSupport(
            redshift_type(kind), NONE, f"Redshift supports at most {MAX_SCALE} digits after the decimal point."
        )
    return TypeSupport(redshift_type(kind), note=NOTES.get(kind.kind, ""))


def _open(opening: Opening) -> Target:
    from replicator.targets.redshift.dialect import RedshiftDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    dialect = RedshiftDialect(destination(opening.config))
    return WarehouseTarget(dialect, CAPABILITIES, opening.storage, opening.replicator)


def _dataset(settings: Settings) -> str:
    """OpenLineage's name of a Redshift server, and the database (openlineage.io/docs/spec/naming)."""
    server, _, database = place(settings).rpartition("/")
    return f"redshift://{server}/{quote(database)}"


def _modules() -> tuple[CheckModule, Inspection[RedshiftDestination]]:
    from replicator.targets.redshift import check, inspection  # noqa: PLC0415 - the client is loaded where it is needed

    return check, inspection


def _clean(opening: Opening, now: float) -> int:
    """Files that loads have left in the bucket, of workers that died."""
    from replicator.targets.redshift.aws import LOAD_SECONDS, Aws  # noqa: PLC0415 - boto3

    return Aws(destination(opening.config)).sweep(now - LOAD_SECONDS)


def _verification(settings: Settings) -> RedshiftConfig:
    from replicator.verification import RedshiftConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed

    def connect() -> Any:
        from replicator.targets.redshift.aws import Aws  # noqa: PLC0415
        from replicator.targets.redshift.connection import connected  # noqa: PLC0415
        from replicator.targets.redshift.failures import explained  # noqa: PLC0415

        to = destination(settings)
        with explained(to.where):
            return connected(to, Aws(to))

    return RedshiftConfig(connect)


REDSHIFT = database_kind(
    "redshift",
    "Amazon Redshift",
    "Tables in the schemas of a Redshift database, provisioned or serverless, loaded through a bucket.",
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
    clean=_clean,
    verification=_verification,
    test_note="The test makes a schema with a table, writes a file to the bucket, loads, merges and removes all of it.",
    guide=read_guide(__file__),
)
