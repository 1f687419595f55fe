"""PostgreSQL 13 and later, read through logical decoding (pgoutput).

What reads logs is loaded when it is needed: pages and commands do without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.sources.kind import SourceKind, padded, read_guide
from replicator.sources.postgres.config import FORM, PostgresConfig
from replicator.sources.postgres.dialect import POSTGRES
from replicator.sources.postgres.offset import parse_offset
from replicator.sources.shared.dataset_names import dataset_within
from replicator.sources.shared.date_policy import ZERO_DATES

if TYPE_CHECKING:
    from replicator.sources.base import Source
    from replicator.verification.source import SourceReader


def _open_source(config: Mapping[str, Any]) -> Source:
    from replicator.sources.postgres.source import open_source  # noqa: PLC0415

    return open_source(config)


def _load() -> None:
    import replicator.sources.postgres.source  # noqa: F401, PLC0415


def _verification_reader(config: Mapping[str, Any]) -> SourceReader:
    from replicator.verification.postgres.reader import PostgresReader  # noqa: PLC0415
    from replicator.verification.postgres.settings import source_config  # noqa: PLC0415

    return PostgresReader(source_config(config))


def _type_document() -> str:
    from replicator.sources.postgres.types import type_document  # noqa: PLC0415

    return type_document()


def _lineage(config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    """`postgres://host:port` and `database.schema.table`."""
    return dataset_within("postgres", str(config.get("database") or ""), config, table)


def _key_text(column: Column, text: str) -> str:
    """UUIDs in small letters, character(n) with blanks."""
    if column.source_type == "uuid":
        return text.strip().lower()
    return padded(column, text, "character")


KIND = SourceKind(
    name="postgres",
    title="PostgreSQL",
    about="13 to 18: RDS, Aurora, Cloud SQL, Azure, Supabase, Neon too",
    database_word="schema",
    open=_open_source,
    load=_load,
    own_databases=lambda _: {"tidemark"},
    parse_offset=parse_offset,
    form=FORM,
    valid=PostgresConfig.parse,
    guide=read_guide(__file__),
    dialect=POSTGRES,
    key_text=_key_text,
    lineage=_lineage,
    verification_reader=_verification_reader,
    type_document=_type_document,
    value_options=(ZERO_DATES,),
    connector="postgresql",
    whole_rows="Enable full before images of the table (ALTER TABLE … REPLICA IDENTITY FULL;), or remove the filter.",
)
