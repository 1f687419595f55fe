"""What there is to know of the Postgres target without opening one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from replicator.model.types import DataType, Kind
from replicator.sources.base import CheckResult
from replicator.sources.kind import read_guide
from replicator.sources.postgres.config import MAX_NAME
from replicator.targets.base import Capabilities, Target, TargetTable
from replicator.targets.iceberg.destination import LakeCatalog
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import Opening, Preview, Settings, TableReport, TargetKind, TypeSupport
from replicator.targets.postgres.config import DESTINATION_FORM, destination, place
from replicator.targets.shared_settings import SHARED_EFFECTS, check_prefix, prefixed
from replicator.targets.warehouse.dialect import POSITIONS
from replicator.targets.warehouse.form import FIXED, FORM

if TYPE_CHECKING:
    from replicator.verification import DatabaseConfig

CAPABILITIES = Capabilities(exactly_once="a position row in the transaction that has the rows", verified=True)
IDENTIFIERS = IdentifierPolicy(
    max_bytes=MAX_NAME, illegal=r"\0", reserved=frozenset({POSITIONS, "information_schema", "pg_catalog", "pg_toast"})
)
TEXT = "pg_catalog.text"
NAMES = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "integer",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.STRING: "text",
    Kind.BINARY: "bytea",
    Kind.DATE: "date",
    Kind.TIMESTAMP_NTZ: "timestamp without time zone",
    Kind.TIMESTAMP: "timestamp with time zone",
}
SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
NUL_NOTE = "A text with a NUL character, which Postgres cannot store, stops the table."


def postgres_type(kind: DataType) -> str:
    """Of a column.  Texts compare byte by byte, whatever the server's locale is."""
    if kind.kind is Kind.DECIMAL:
        return f"numeric({kind.precision},{kind.scale})"
    return f'{TEXT} COLLATE pg_catalog."C"' if kind.kind is Kind.STRING else NAMES[kind.kind]


def refused_column(name: str) -> str:
    """See `TargetKind`."""
    if len(name.encode()) > MAX_NAME:
        return f"Its name has more than {MAX_NAME} bytes in UTF-8, which Postgres cuts off."
    return "Its name is that of a system column of Postgres." if name in SYSTEM_COLUMNS else ""


def _types(kind: DataType) -> TypeSupport:
    """PARTIAL would have to be accepted for every text; what stops a table is told when it happens, and in the docs."""
    name = postgres_type(kind) if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
    return TypeSupport(name, note=NUL_NOTE if kind.kind is Kind.STRING else "")


def _valid(settings: Settings) -> None:
    destination(settings)
    check_prefix(settings)


def _open(opening: Opening) -> Target:
    from replicator.targets.postgres.dialect import PostgresDialect  # noqa: PLC0415 - loaded where it is needed
    from replicator.targets.warehouse.target import WarehouseTarget  # noqa: PLC0415

    dialect = PostgresDialect(destination(opening.config))
    return WarehouseTarget(dialect, CAPABILITIES, opening.storage, opening.replicator)


def _dataset(settings: Settings, own: LakeCatalog) -> str:
    """OpenLineage's name of a Postgres server, and the database (openlineage.io/docs/spec/naming)."""
    del own
    server, _, database = place(settings).rpartition("/")
    return f"postgres://{server}/{quote(database)}"


def _check(settings: Settings) -> list[CheckResult]:
    from replicator.targets.postgres.check import check  # noqa: PLC0415

    return check(settings)


def _written(settings: Settings) -> CheckResult:
    from replicator.targets.postgres.check import check_written  # noqa: PLC0415

    return check_written(settings)


def _report(settings: Settings, own: LakeCatalog, namespace: str, name: str) -> TableReport | None:
    from replicator.targets.postgres.inspection import report  # noqa: PLC0415

    del own
    return report(destination(settings), TargetTable(namespace, name))


def _preview(settings: Settings, own: LakeCatalog, table: TargetTable, rows: int) -> Preview | None:
    from replicator.targets.postgres.inspection import preview  # noqa: PLC0415

    del own
    return preview(destination(settings), table, rows)


def _verification(settings: Settings, own: LakeCatalog) -> DatabaseConfig:
    from replicator.verification import DatabaseConfig  # noqa: PLC0415 - pyiceberg is loaded where it is needed
    from replicator.verification.postgres.settings import source_config  # noqa: PLC0415

    del own
    return DatabaseConfig(source_config(settings))


POSTGRES = TargetKind(
    "postgres",
    "PostgreSQL",
    "Tables in the schemas of a PostgreSQL database, version 13 or later.",
    refused_column=refused_column,
    proof="Proven: every test of a target runs on real servers.",
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
    effects={one.name: "Takes effect within a minute. The database must have the tables written so far."
        for one in DESTINATION_FORM} | SHARED_EFFECTS,
    check=_check,
    written=_written,
    report=_report,
    preview=_preview,
    verification=_verification,
    test_note="The test makes a schema and a table in a transaction, writes and reads a row, and rolls all of it back.",
    guide=read_guide(__file__),
)  # fmt: skip
