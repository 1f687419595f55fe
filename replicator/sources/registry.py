"""The sources that exist: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.offset import Offset
from replicator.sources import mysql
from replicator.sources.base import FormField, Source


@dataclass(frozen=True)
class SourceKind:
    """A plugin: how to open it, how to read its offsets back, what its form asks for, where its guide is."""

    name: str
    title: str
    open: Callable[[Mapping[str, Any]], Source]
    parse_offset: Callable[[Mapping[str, Any]], Offset]
    form: Sequence[FormField]
    guide: str


KINDS = {
    "mysql": SourceKind("mysql", "MySQL or MariaDB", mysql.open_source, mysql.parse_offset, mysql.FORM, mysql.GUIDE),
}


def source_kind(name: str) -> SourceKind:
    """ConfigurationError for a name that is not registered."""
    try:
        return KINDS[name]
    except KeyError:
        message = f"There is no source of kind {name!r}; there are: {', '.join(sorted(KINDS))}."
        raise ConfigurationError(message) from None
