"""Rules that say which tables have which computed columns, by patterns of their names in the source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.computed import METADATA, Computed, ComputedKind
from replicator.model.identifiers import TableId, parse_name, pattern_captures
from replicator.model.mode import OWN_COLUMNS
from replicator.model.routing import MAX_COLUMN_NAME, Routing
from replicator.model.types import BIGINT, BOOLEAN, STRING, DataType, Kind

COMPUTED_COLUMNS = "computed_columns"
_FORM = "`schema.table: name = value, …`"
_VALUES = "'text', a number, true, false, commit_time, offset, operation, cast(column as type)"
_PARTS = re.compile(r"""(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|\([^()]*(?:\([^()]*\)[^()]*)*\)|[^,'"()])+""")
_CAST = re.compile(r"cast\s*\(\s*(\"(?:[^\"]|\"\")+\"|.+?)\s+as\s+(.+?)\s*\)", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)


@dataclass(frozen=True)
class ComputedRule:
    """database, table: patterns of the source's names, with `*` and `?`."""

    database: str
    table: str
    columns: tuple[tuple[str, Computed], ...]

    def fits(self, table: TableId) -> bool:
        """Has the table these columns?"""
        places = ((self.database, table.above), (self.table, table.name))
        return all(pattern_captures(pattern, text) is not None for pattern, text in places)


@dataclass(frozen=True)
class ComputedColumns:
    """A table has the columns of all rules that fit it; of two with one name, the first.  `without`: tables that have
    none.  routing: a table that shares its target table has the column that tells the rows apart, before the others.
    """

    rules: tuple[ComputedRule, ...] = field(default=())
    without: frozenset[TableId] = frozenset()
    routing: Routing = field(default_factory=Routing)

    def __bool__(self) -> bool:
        return bool(self.rules) or self.routing.shares

    def of(self, table: TableId) -> dict[str, Computed]:
        """By name, in the order in which they are written."""
        found: dict[str, Computed] = {}
        if table in self.without:
            return found
        if (route := self.routing.route(table)) is not None and route.column:
            shared = f"{route.namespace}.{route.name}"
            found[route.column] = Computed(ComputedKind.CONSTANT, STRING, route.value, shared)
        for rule in self.rules:
            if rule.fits(table):
                found |= _new(rule.columns, found)
        return found

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> ComputedColumns:
        """Of a target's settings.  Raises ConfigurationError that names the line."""
        return ComputedColumns(_parsed(str(settings.get(COMPUTED_COLUMNS) or "")), routing=Routing.of(settings))


def _new(columns: Iterable[tuple[str, Computed]], known: Mapping[str, Computed]) -> dict[str, Computed]:
    taken = {name.lower() for name in known}
    return {name: one for name, one in columns if name.lower() not in taken}


@lru_cache(maxsize=100)
def _parsed(text: str) -> tuple[ComputedRule, ...]:
    return tuple(_rule(line) for line in filter(None, map(str.strip, text.splitlines())))


def _rule(line: str) -> ComputedRule:
    pattern, _, rest = line.partition(": ")
    source, parts = parse_name(pattern.strip()), [one.strip() for one in _PARTS.findall(rest)]
    if source is None or not rest.strip() or ",".join(_PARTS.findall(rest)) != rest:
        raise ConfigurationError(f"{COMPUTED_COLUMNS}: {line!r} is not of the form {_FORM}.")
    columns: dict[str, Computed] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or not name or not value.strip():
            raise ConfigurationError(f"{COMPUTED_COLUMNS}: {line!r} is not of the form {_FORM}.")
        if (
            name.lower() in OWN_COLUMNS
            or len(name) > MAX_COLUMN_NAME
            or not name.isprintable()
            or set(name) & set("'\"")
        ):
            raise ConfigurationError(
                f"{COMPUTED_COLUMNS}: the name {name[:MAX_COLUMN_NAME]} is reserved or not a name."
            )
        if name.lower() in {one.lower() for one in columns}:
            raise ConfigurationError(f"{COMPUTED_COLUMNS}: {line!r} has {name} twice.")
        columns[name] = _computed(value.strip())
    return ComputedRule(source[0].database, source[0].name, tuple(columns.items()))


def _computed(text: str) -> Computed:
    if (found := _TEXT.fullmatch(text)) is not None:
        return Computed(ComputedKind.CONSTANT, STRING, found[1].replace("''", "'"))
    if text.lower() in {"true", "false"}:
        return Computed(ComputedKind.CONSTANT, BOOLEAN, text.lower())
    if re.fullmatch(r"[+-]?\d{1,18}", text):
        return Computed(ComputedKind.CONSTANT, BIGINT, str(int(text)))
    if text in {kind.value for kind in METADATA}:
        return Computed(ComputedKind(text), METADATA[ComputedKind(text)])
    if (cast := _CAST.fullmatch(text)) is not None:
        column = cast[1][1:-1].replace('""', '"') if cast[1].startswith('"') else cast[1]
        return Computed(ComputedKind.CAST, _type(cast[2]), column)
    raise ConfigurationError(f"{COMPUTED_COLUMNS}: {text!r} is none of {_VALUES}.")


def _type(text: str) -> DataType:
    found: DataType | None
    try:
        found = DataType.parse(re.sub(r"\s", "", text.lower()))
    except ValueError:
        found = None
    if found is not None and found.kind in {Kind.STRING, Kind.BIGINT, Kind.DOUBLE, Kind.DATE, Kind.DECIMAL}:
        return found
    message = f"{COMPUTED_COLUMNS}: {text!r} is none of string, bigint, double, date, decimal(precision, scale)."
    raise ConfigurationError(message)
