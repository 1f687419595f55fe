"""MySQL 8.0 and later, MariaDB 10.6 and later, read through their binary log.

What reads logs is loaded when it is needed: pages and commands do without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.schema import Column
from replicator.sources.kind import SourceKind, read_guide
from replicator.sources.mysql.config import FORM, MySqlConfig
from replicator.sources.mysql.dialect import MYSQL
from replicator.sources.mysql.offset import parse_offset
from replicator.sources.shared.date_policy import ZERO_DATES

if TYPE_CHECKING:
    from replicator.sources.base import Source
    from replicator.verification.source import SourceReader


def _open_source(config: Mapping[str, Any]) -> Source:
    from replicator.sources.mysql.source import open_source  # noqa: PLC0415

    return open_source(config)


def _load() -> None:
    import replicator.sources.mysql.source  # noqa: F401, PLC0415


def _verification_reader(config: Mapping[str, Any]) -> SourceReader:
    from replicator.verification.mysql.reader import MySqlReader  # noqa: PLC0415
    from replicator.verification.mysql.settings import source_config  # noqa: PLC0415

    return MySqlReader(source_config(config))


def _type_document() -> str:
    from replicator.sources.mysql.types import type_document  # noqa: PLC0415

    return type_document()


def _own_databases(config: Mapping[str, Any]) -> Collection[str]:
    return {MySqlConfig.parse(config).watermark_database.lower()}


def _key_text(column: Column, text: str) -> str:
    """MariaDB shows a UUID in small letters."""
    return text.strip().lower() if column.source_type == "uuid" else text


KIND = SourceKind(
    name="mysql",
    title="MySQL or MariaDB",
    about="MySQL 8.0 and later, MariaDB 10.6 and later: RDS, Aurora, Cloud SQL, Azure too",
    open=_open_source,
    load=_load,
    own_databases=_own_databases,
    parse_offset=parse_offset,
    form=FORM,
    valid=MySqlConfig.parse,
    guide=read_guide(__file__),
    dialect=MYSQL,
    key_text=_key_text,
    verification_reader=_verification_reader,
    type_document=_type_document,
    value_options=(ZERO_DATES,),
)
