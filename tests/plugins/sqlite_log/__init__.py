"""A toy: tables of a SQLite file, and a log that triggers write.  It proves that the product need not know a source.

`KIND` is all that a registry needs of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from replicator.model.identifiers import TableId
from replicator.sources.kind import SourceKind, read_guide
from tests.plugins.sqlite_log.config import FORM, SqliteConfig
from tests.plugins.sqlite_log.dialect import SQLITE
from tests.plugins.sqlite_log.offset import parse_offset

if TYPE_CHECKING:
    from replicator.sources.base import Source
    from replicator.verification.source import SourceReader


def _open_source(config: Mapping[str, Any]) -> Source:
    from tests.plugins.sqlite_log.source import SqliteSource

    return SqliteSource(SqliteConfig.parse(config))


def _verification_reader(config: Mapping[str, Any]) -> SourceReader:
    from tests.plugins.sqlite_log.verification import SqliteReader

    return SqliteReader(str(config["file"]))


def _lineage(config: Mapping[str, Any], table: TableId) -> tuple[str, str]:
    return "file", f"{config['file']}#{table}"


KIND = SourceKind(
    name="sqlite_log",
    title="SQLite",
    about="a file with a log that triggers write",
    database_word="attachment",
    open=_open_source,
    parse_offset=parse_offset,
    form=FORM,
    valid=SqliteConfig.parse,
    guide=read_guide(__file__),
    dialect=SQLITE,
    lineage=_lineage,
    address=lambda config: str(config["file"]),
    verification_reader=_verification_reader,
)
