"""What there is to know of the Postgres target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from replicator.model.types import DataType, Kind
from replicator.sources.kind import read_guide
from replicator.sources.postgres.config import MAX_NAME
from replicator.targets.base import Capabilities, Target
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import Opening, Settings, TypeSupport
from replicator.targets.postgres.config import DESTINATION_FORM, PostgresDestination, destination, place
from replicator.targets.postgres.names import NAMES, postgres_type, refused_column
from replicator.targets.warehouse.dialect import POSITIONS
from replicator.targets.warehouse.kind import CheckModule, Inspection, database_kind

if TYPE_CHECKING:
    from replicator.verification import DatabaseConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
IDENTIFIERS = IdentifierPolicy(
    max_bytes=MAX_NAME, illegal=r"\0", reserved=frozenset({POSITIONS, "information_schema", "pg_catalog", "pg_toast"})
)
NUL_NOTE = "A text with a NUL character, which Postgres cannot store, stops the table."


def _types(kind: DataType) -> TypeSupport:
    """Return how a type is written.  Texts are not PARTIAL, which users would have to accept for every text column."""
    name = postgres_type(kind) if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
    return TypeSupport(name, note=NUL_NOTE if kind.kind is Kind.STRING else "")


def _open(opening: Opening) -> Target:
    from replicator.targets.postgres.dialect import PostgresDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    dialect = PostgresDialect(destination(opening.config))
    return WarehouseTarget(dialect, CAPABILITIES, opening.storage, opening.replicator)


def _dataset(settings: Settings) -> str:
    """OpenLineage's name of a Postgres server, and the database (openlineage.io/docs/spec/naming)."""
    server, _, database = place(settings).rpartition("/")
    return f"postgres://{server}/{quote(database)}"


def _modules() -> tuple[CheckModule, Inspection[PostgresDestination]]:
    from replicator.targets.postgres import check, inspection  # noqa: PLC0415 - the client is loaded where it is needed

    return check, inspection


def _verification(settings: Settings) -> DatabaseConfig:
    from replicator.verification import DatabaseConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed
    from replicator.verification.postgres.settings import source_config  # noqa: PLC0415

    return DatabaseConfig(source_config(settings))


POSTGRES = database_kind(
    "postgres",
    "PostgreSQL",
    "Tables in the schemas of a PostgreSQL database, version 13 or later.",
    refused_column=refused_column,
    proof="Proven: every test of a target runs on real servers.",
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
    test_note="The test makes a schema and a table in a transaction, writes and reads a row, and rolls all of it back.",
    guide=read_guide(__file__),
)
