"""Routing rules: what tables are called in the target, by patterns of their names in the source, and which of them
share one target table (docs/destinations.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, parse_name, pattern_captures
from replicator.model.mode import OWN_COLUMNS

ROUTING = "routing"
_FORM = "`schema.table: namespace.name`, or `schema.table: namespace.name shared by column = value`"
_SHARED = re.compile(r"(.+?)\s+shared by\b(?:\s+([^=]+?)\s*=\s*(.+))?.*", re.DOTALL)
MAX_COLUMN_NAME = 128
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WILD = re.compile(r"[*?]")


class Route(NamedTuple):
    """Where a table goes: namespace and name in the target.

    column, value: of a table that shares its target table with others, the column that tells their rows apart, and what
    it holds in this table's rows; empty for a table that has its target table for itself.
    """

    namespace: str
    name: str
    column: str = ""
    value: str = ""

    @property
    def part(self) -> str:
        """As `TargetTable.part` has it."""
        return f"{self.column}={self.value}" if self.column else ""


@dataclass(frozen=True)
class RoutingRule:
    """database, table: patterns of the source's names, with `*` and `?`; namespace, name: templates of the target's.

    column: by which tables share the target table, empty where they do not; value: the template of what it holds.
    """

    database: str
    table: str
    namespace: str
    name: str
    column: str = ""
    value: str = ""

    def route(self, table: TableId) -> Route | None:
        """None where the rule does not fit."""
        stars = [pattern_captures(self.database, table.above), pattern_captures(self.table, table.name)]
        if stars[0] is None or stars[1] is None:
            return None
        values = {"schema": table.database, "table": table.name}
        values |= {str(number): text for number, text in enumerate([*stars[0], *stars[1]], 1)}
        return Route(
            _filled(self.namespace, values), _filled(self.name, values), self.column, _filled(self.value, values)
        )


@dataclass(frozen=True)
class Routing:
    """The first rule that fits counts."""

    rules: tuple[RoutingRule, ...] = field(default=())

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Routing:
        """Of a target's settings.  Raises ConfigurationError that names the line."""
        return _parsed(str(settings.get(ROUTING) or ""))

    @property
    def shares(self) -> bool:
        """Do tables share target tables by any of the rules?"""
        return any(rule.column for rule in self.rules)

    def route(self, table: TableId) -> Route | None:
        """None where no rule fits."""
        return next((found for rule in self.rules if (found := rule.route(table)) is not None), None)

    def patterns(self, database: str) -> list[TableId]:
        """Tables, or patterns of tables, of this database of which a rule says something."""
        fits = [rule for rule in self.rules if pattern_captures(rule.database, database) is not None]
        return [TableId(database, rule.table) for rule in fits]


@lru_cache(maxsize=100)
def _parsed(text: str) -> Routing:
    return Routing(tuple(_rule(line) for line in filter(None, map(str.strip, text.splitlines()))))


def _rule(line: str) -> RoutingRule:
    pattern, _, target = line.partition(": ")
    shared = _SHARED.fullmatch(target.strip())
    place, column, value = shared.groups("") if shared else (target.strip(), "", "")
    source, (namespace, dot, name) = parse_name(pattern.strip()), place.rpartition(".")
    if source is None or not dot or not namespace or not name or (shared and not (column and value)):
        raise ConfigurationError(f"{ROUTING}: {line!r} is not of the form {_FORM}.")
    _check_column(column)
    rule = RoutingRule(source[0].database, source[0].name, namespace, name, column, value)
    stars = len(_WILD.findall(rule.database + rule.table))
    known = {"schema", "table", *map(str, range(1, stars + 1))}
    for part in (namespace, name, value):
        unknown = [one for one in _PLACEHOLDER.findall(part) if one not in known]
        if unknown or re.search(r"[{}]", _PLACEHOLDER.sub("", part)):
            which = f"{{{unknown[0]}}}" if unknown else "a brace"
            stand = ", ".join(f"{{{one}}}" for one in ["schema", "table", *map(str, range(1, stars + 1))])
            raise ConfigurationError(f"{ROUTING}: {which} in {line!r} stands for nothing; there are {stand}.")
    return rule


def _check_column(column: str) -> None:
    if column.lower() in OWN_COLUMNS or len(column) > MAX_COLUMN_NAME or set(column) & set("'\"{}"):
        raise ConfigurationError(f"{ROUTING}: the column name {column[:MAX_COLUMN_NAME]} is reserved or not a name.")


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
