"""Oracle 19c and later, read through LogMiner.

The driver and what reads logs are loaded when they are needed: pages and commands do without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.sources.kind import SourceKind, padded, read_guide
from replicator.sources.oracle.config import FORM, OracleConfig
from replicator.sources.oracle.dialect import ORACLE
from replicator.sources.oracle.offset import parse_offset
from replicator.sources.shared.dataset_names import dataset_within
from replicator.sources.shared.date_policy import ZERO_DATES

if TYPE_CHECKING:
    from replicator.sources.base import Source
    from replicator.verification.source import SourceReader


def _open_source(config: Mapping[str, Any]) -> Source:
    from replicator.sources.oracle.source import open_source  # noqa: PLC0415

    return open_source(config)


def _load() -> None:
    import replicator.sources.oracle.source  # noqa: F401, PLC0415


def _verification_reader(config: Mapping[str, Any]) -> SourceReader:
    from replicator.verification.oracle.reader import OracleReader  # noqa: PLC0415

    return OracleReader(config)


def _type_document() -> str:
    from replicator.sources.oracle.types import type_document  # noqa: PLC0415

    return type_document()


def _lineage(config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    """`oracle://host:port` and `service.schema.table`."""
    above = config.get("pdb") or config.get("service") or config.get("sid") or ""
    return dataset_within("oracle", str(above), config, table)


def _key_text(column: Column, text: str) -> str:
    """CHAR(n) with blanks."""
    return padded(column, text, "CHAR", "NCHAR")


def _address(config: Mapping[str, Any]) -> str:
    """`host:port/service`, and the pluggable database."""
    named = f"/{config.get('service') or config.get('sid') or ''}"
    return f"{config.get('host', '')}:{config.get('port', '')}{named}".rstrip(":/")


KIND = SourceKind(
    name="oracle",
    title="Oracle",
    about="19c to 23ai: RDS, Autonomous where LogMiner is allowed",
    database_word="schema",
    open=_open_source,
    load=_load,
    parse_offset=parse_offset,
    form=FORM,
    valid=OracleConfig.parse,
    guide=read_guide(__file__),
    dialect=ORACLE,
    address=_address,
    key_text=_key_text,
    lineage=_lineage,
    verification_reader=_verification_reader,
    type_document=_type_document,
    value_options=(ZERO_DATES,),
    proof="Experimental: never run against an Oracle server by us; tested on an emulator of Oracle's documented views.",
    whole_rows="Exclude the table's large objects, or remove the filter.",
)
