"""What there is to know of it without opening one."""

from __future__ import annotations

import os
from pathlib import Path

from replicator.errors import ConfigurationError
from replicator.model.mode import Mode
from replicator.model.types import DataType, Kind
from replicator.sources.base import CheckResult, CheckStatus, FormField
from replicator.state.journal import DDL_OPERATIONS
from replicator.targets.base import Capabilities, Target
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import PARTIAL, Opening, Settings, TargetKind, TypeSupport

CAPABILITIES = Capabilities(
    modes=frozenset({Mode.MIRROR}),
    ddl=frozenset(DDL_OPERATIONS) - {"rename_table"},
    exactly_once="transaction with a position table",
    renames=False,
)
IDENTIFIERS = IdentifierPolicy(fold=str.lower)  # to DuckDB, names that differ in case are one
NAMES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BINARY: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}


def types(kind: DataType) -> TypeSupport:
    """DuckDB has a type for each; a zone is shown as the session's."""
    name = f"DECIMAL({kind.precision},{kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
    note = "Shown in the time zone of the session." if kind.kind is Kind.TIMESTAMP else ""
    return TypeSupport(name, PARTIAL if note else "full", note)


def check(settings: Settings) -> list[CheckResult]:
    """Can the file be written?"""
    folder = Path(str(settings["path"])).parent
    if os.access(folder, os.W_OK):
        return [CheckResult("folder", "Folder", CheckStatus.OK, "It can be written.")]
    return [
        CheckResult("folder", "Folder", CheckStatus.FAILED, f"{folder} cannot be written.", "Choose another folder.")
    ]


def valid(settings: Settings) -> None:
    """ConfigurationError for a path that is none."""
    if not Path(str(settings.get("path", ""))).is_absolute():
        raise ConfigurationError("path must be absolute.")


def open_target(opening: Opening) -> Target:
    """DuckDB is loaded here only."""
    from tests.plugins.duckdb_tables.target import DuckDbTarget

    return DuckDbTarget(str(opening.config["path"]), opening.storage, opening.replicator)


DUCKDB = TargetKind(
    "duckdb",
    "DuckDB",
    "Tables in a file of DuckDB.",
    open=open_target,
    capabilities=CAPABILITIES,
    types=types,
    namespace=lambda settings, database: f"{settings.get('schema_prefix', '')}{database}",
    place=lambda settings: str(settings.get("path", "")),
    dataset=lambda settings, _: f"file://{settings.get('path', '')}",
    form=(FormField("schema_prefix", "Schema prefix", required=False, keeps_secret=True),),
    destination_form=(FormField("path", "File", help="Absolute."),),
    valid=valid,
    identifiers=IDENTIFIERS,
    fixed={"schema_prefix": "Queries use these names."},
    check=check,
    compare="Compare it with SQL.",
    guide="# DuckDB\n\nGive it a file.",
)
