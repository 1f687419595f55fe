"""Format, partitions, sort order and properties of target tables, as a replicator's settings say.  For pages, too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from replicator.errors import ConfigurationError

PARTITION_BY, SORT_BY, PROPERTIES = "partition_by", "sort_by", "table_properties"
FORMAT_VERSION, BLOOM_FILTERS = "format_version", "bloom_filters"
FORMAT_VERSIONS = ("2", "3")
OURS = (
    "tidemark.", "format-version", "write.metadata.", "write.delete.", "write.update.", "write.merge.", "write.wap.",
    "write.data.path", "write.folder-storage.", "write.object-storage.", "write.location", "gc.", "commit.",
)  # fmt: skip
_PARTITION = re.compile(r"(?:(year|month|day|hour)|(bucket|truncate)\s*\(\s*(\d{1,6})\s*,)?\s*(\(?)(.+?)(\)?)")
_SORT = re.compile(r"(.+?)(?:\s+(asc|desc))?", re.IGNORECASE)
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableLayout:
    """Of one table.  partitions: (column, transform) in Iceberg's words; sorts: (column, asc or desc).

    version: of the format; bloom: files have Bloom filters of the key.
    """

    partitions: Pairs = ()
    sorts: Pairs = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 2
    bloom: bool = False


@dataclass(frozen=True)
class Layout:
    """Lines of the settings: a pattern of the source's `database.table`, and what it says; the first that fits
    counts.
    """

    partitions: Sequence[tuple[str, Pairs]] = ()
    sorts: Sequence[tuple[str, Pairs]] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = 2
    bloom: bool = False

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Layout:
        """Raises ConfigurationError that names the line."""
        version, bloom = str(settings.get(FORMAT_VERSION) or "2"), str(settings.get(BLOOM_FILTERS) or "no")
        if version not in FORMAT_VERSIONS or bloom not in {"no", "yes"}:
            raise ConfigurationError(f"{FORMAT_VERSION} must be 2 or 3, and {BLOOM_FILTERS} yes or no.")
        return cls(
            [(pattern, tuple(map(_partition, parts))) for pattern, parts in _lines(settings, PARTITION_BY)],
            [(pattern, tuple(map(_sort, parts))) for pattern, parts in _lines(settings, SORT_BY)],
            _properties(str(settings.get(PROPERTIES) or "")),
            int(version),
            bloom == "yes",
        )

    def of(self, source: str) -> TableLayout:
        """`source`: database and table, with a dot between."""

        def first(lines: Sequence[tuple[str, Pairs]]) -> Pairs:
            return next((found for pattern, found in lines if fnmatchcase(source, pattern)), ())

        return TableLayout(first(self.partitions), first(self.sorts), self.properties, self.version, self.bloom)


def _lines(settings: Mapping[str, Any], setting: str) -> list[tuple[str, list[str]]]:
    found = []
    for line in filter(None, map(str.strip, str(settings.get(setting) or "").splitlines())):
        pattern, colon, rest = line.partition(": ")
        parts = [one.strip() for one in re.split(r",(?![^(]*\))", rest) if one.strip()]
        if not colon or not parts or "." not in pattern or any(one.count("(") != one.count(")") for one in parts):
            message = f"{setting}: {line!r} is not of the form `database.table: column, …`."
            raise ConfigurationError(message)
        found.append((pattern.strip(), parts))
    return found


def _partition(text: str) -> tuple[str, str]:
    found = _PARTITION.fullmatch(text)
    if found is None or (bool(found[1]) != bool(found[4])) or (bool(found[1] or found[2]) != bool(found[6])):
        message = f"{PARTITION_BY}: {text!r} is none of column, year(…), month(…), day(…), hour(…), bucket(n, …)"
        raise ConfigurationError(f"{message}, truncate(n, …).")
    column = found[5].strip()
    if found[2]:
        return column, f"{found[2]}[{found[3]}]"
    return column, found[1] or "identity"


def _sort(text: str) -> tuple[str, str]:
    found = _SORT.fullmatch(text)
    if found is None:
        raise AssertionError(text)
    return found[1], (found[2] or "asc").lower()


def _properties(text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigurationError(f"{PROPERTIES}: {line!r} is not of the form name=value.")
        if name.startswith(OURS):
            raise ConfigurationError(f"{PROPERTIES}: {name} is Tidemark's own.")
        found[name] = value.strip()
    return found
