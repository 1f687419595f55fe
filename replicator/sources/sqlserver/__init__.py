"""SQL Server 2016 and later and Azure SQL, read through change data capture or Change Tracking.

What reads logs, and Microsoft's driver, are loaded when they are needed: pages and commands do without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.sources.kind import SourceKind, padded, read_guide
from replicator.sources.shared.dataset_names import dataset_within
from replicator.sources.sqlserver.config import FORM, SqlServerConfig
from replicator.sources.sqlserver.dialect import TSQL
from replicator.sources.sqlserver.offset import parse_offset

if TYPE_CHECKING:
    from replicator.sources.base import Source
    from replicator.verification.source import SourceReader


def _open_source(config: Mapping[str, Any]) -> Source:
    from replicator.sources.sqlserver.source import open_source  # noqa: PLC0415

    return open_source(config)


def _load() -> None:
    import replicator.sources.sqlserver.source  # noqa: F401, PLC0415


def _verification_reader(config: Mapping[str, Any]) -> SourceReader:
    from replicator.verification.sqlserver.reader import SqlServerReader  # noqa: PLC0415

    return SqlServerReader(config)


def _type_document() -> str:
    from replicator.sources.sqlserver.types import type_document  # noqa: PLC0415

    return type_document()


def _lineage(config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    """`mssql://host:port` and `database.schema.table`."""
    return dataset_within("mssql", str(config.get("database") or ""), config, table)


def _key_text(column: Column, text: str) -> str:
    """The server shows a uniqueidentifier in capitals, and pads char(n) with blanks."""
    if column.source_type == "uniqueidentifier":
        return text.strip().upper()
    return padded(column, text, "char", "nchar")


PROOF = (
    "Preview: tested with Microsoft's own driver against an emulator of change data capture and Change Tracking, not"
    " against SQL Server. Never run on the real thing: SQL Server, Azure SQL, sign-in by Windows or Entra, failover of"
    " availability groups, the capture job's own limits, speed."
)

KIND = SourceKind(
    name="sqlserver",
    title="SQL Server",
    about="2016 to 2022, Azure SQL: change data capture, or Change Tracking",
    database_word="schema",
    open=_open_source,
    load=_load,
    own_databases=lambda config: {str(config.get("watermark_schema") or "tidemark").lower(), "cdc"},
    parse_offset=parse_offset,
    form=FORM,
    valid=SqlServerConfig.parse,
    guide=read_guide(__file__),
    dialect=TSQL,
    key_text=_key_text,
    lineage=_lineage,
    verification_reader=_verification_reader,
    type_document=_type_document,
    proof=PROOF,
    whole_rows="Choose change data capture in the connection, or remove the filter.",
)
