"""Routing rules: what tables are called in the target, by patterns of their names in the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, parse_name, pattern_captures

ROUTING = "routing"
_FORM = "`schema.table: namespace.name`"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WILD = re.compile(r"[*?]")


@dataclass(frozen=True)
class Rule:
    """database, table: patterns of the source's names, with `*` and `?`; namespace, name: templates of the target's."""

    database: str
    table: str
    namespace: str
    name: str

    def route(self, table: TableId) -> tuple[str, str] | None:
        """Namespace and name in the target; None where the rule does not fit."""
        stars = [pattern_captures(self.database, table.above), pattern_captures(self.table, table.name)]
        if stars[0] is None or stars[1] is None:
            return None
        values = {"schema": table.database, "table": table.name}
        values |= {str(number): text for number, text in enumerate([*stars[0], *stars[1]], 1)}
        return _filled(self.namespace, values), _filled(self.name, values)


@dataclass(frozen=True)
class Routing:
    """The first rule that fits counts."""

    rules: tuple[Rule, ...] = field(default=())

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Routing:
        """Of a target's settings.  Raises ConfigurationError that names the line."""
        return _parsed(str(settings.get(ROUTING) or ""))

    def route(self, table: TableId) -> tuple[str, str] | None:
        """Namespace and name in the target; None where no rule fits."""
        return next((found for rule in self.rules if (found := rule.route(table)) is not None), None)

    def patterns(self, database: str) -> list[TableId]:
        """Tables, or patterns of tables, of this database of which a rule says something."""
        fits = [rule for rule in self.rules if pattern_captures(rule.database, database) is not None]
        return [TableId(database, rule.table) for rule in fits]


@lru_cache(maxsize=100)
def _parsed(text: str) -> Routing:
    return Routing(tuple(_rule(line) for line in filter(None, map(str.strip, text.splitlines()))))


def _rule(line: str) -> Rule:
    pattern, _, target = line.partition(": ")
    source, (namespace, dot, name) = parse_name(pattern.strip()), target.strip().rpartition(".")
    if source is None or not dot or not namespace or not name:
        raise ConfigurationError(f"{ROUTING}: {line!r} is not of the form {_FORM}.")
    rule = Rule(source[0].database, source[0].name, namespace, name)
    stars = len(_WILD.findall(rule.database + rule.table))
    known = {"schema", "table", *map(str, range(1, stars + 1))}
    for part in (namespace, name):
        unknown = [one for one in _PLACEHOLDER.findall(part) if one not in known]
        if unknown or re.search(r"[{}]", _PLACEHOLDER.sub("", part)):
            which = f"{{{unknown[0]}}}" if unknown else "a brace"
            stand = ", ".join(f"{{{one}}}" for one in ["schema", "table", *map(str, range(1, stars + 1))])
            raise ConfigurationError(f"{ROUTING}: {which} in {line!r} stands for nothing; there are {stand}.")
    return rule


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
