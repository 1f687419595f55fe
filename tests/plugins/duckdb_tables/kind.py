"""What there is to know of it without opening one."""

from __future__ import annotations

import os
from pathlib import Path

from replicator.errors import ConfigurationError
from replicator.sources.base import CheckResult, CheckStatus, FormField
from replicator.targets.base import Target
from replicator.targets.kind import Opening, Settings, TargetKind
from tests.plugins.duckdb_tables.names import CAPABILITIES, IDENTIFIERS, types


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
