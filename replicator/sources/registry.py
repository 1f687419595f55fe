"""The sources that exist: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.offset import Offset
from replicator.sources import mysql, postgres
from replicator.sources.base import FormField, Source


@dataclass(frozen=True)
class SourceKind:
    """A plugin: how to open it, how to read its offsets back, what its form asks for, where its guide is.

    `about`: which servers, in a few words.  `database_word`: what users of this source call a `TableId.database`; its
    plural takes an s.  `keeps_log`: the server keeps its log for a single reader, for as long as that takes.  `valid`:
    ConfigurationError for settings that cannot be right.  `dialect`: sqlglot's name of its SQL (`conditions`).
    """

    name: str
    title: str
    open: Callable[[Mapping[str, Any]], Source]
    parse_offset: Callable[[Mapping[str, Any]], Offset]
    form: Sequence[FormField]
    guide: str
    about: str = ""
    database_word: str = "database"
    keeps_log: bool = False
    dialect: str = ""
    valid: Callable[[Mapping[str, Any]], object] = dict


KINDS = {
    "mysql": SourceKind(
        "mysql",
        "MySQL or MariaDB",
        mysql.open_source,
        mysql.parse_offset,
        mysql.FORM,
        mysql.GUIDE,
        valid=mysql.MySqlConfig.parse,
        dialect="mysql",
        about="MySQL 8.0 and later, MariaDB 10.6 and later: RDS, Aurora, Cloud SQL, Azure too",
    ),
    "postgres": SourceKind(
        "postgres",
        "PostgreSQL",
        postgres.open_source,
        postgres.parse_offset,
        postgres.FORM,
        postgres.GUIDE,
        about="13 to 18: RDS, Aurora, Cloud SQL, Azure, Supabase, Neon too",
        database_word="schema",
        keeps_log=True,
        dialect="postgres",
        valid=postgres.PostgresConfig.parse,
    ),
}

DEFAULT = "mysql"  # of a definitions file that names no kind


def source_kind(name: str) -> SourceKind:
    """ConfigurationError for a name that is not registered."""
    try:
        return KINDS[name]
    except KeyError:
        message = f"Unknown source kind {name!r}; known kinds: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None
