"""Routing rules: what tables are called in the target, by patterns of their names in the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, parse_name
from replicator.sources.base import FormField

ROUTING = "routing"
ROUTING_FIELD = FormField(
    ROUTING, "Routing rules", "textarea", required=False, keeps_secret=True,
    help="One line per table or pattern, the first that fits counts: shop_*.orders: sales.orders_{1}. {schema} and"
    " {table} stand for the source’s names, {1}, {2}, … for what the stars and question marks stood for. The name is"
    " complete: no prefix is added. Other tables are named by their schema and table.",
)  # fmt: skip
ROUTING_EFFECT = (
    "Takes effect for tables that are added later. Tables that exist keep their names; change those on their pages."
)
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
        stars = [_captures(self.database, table.above), _captures(self.table, table.name)]
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
        fits = [rule for rule in self.rules if _captures(rule.database, database) is not None]
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


def _captures(pattern: str, text: str) -> tuple[str, ...] | None:
    found = _compiled(pattern).fullmatch(text)
    return None if found is None else found.groups()


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> re.Pattern[str]:
    """A star takes as little as it can and never more (the last one the rest), so each text is read once."""
    first, *others = ("".join("(.)" if one == "?" else re.escape(one) for one in part) for part in pattern.split("*"))
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    return re.compile(f"{first}{''.join(f'(?>(.*?){part})' for part in middle)}(.*){last}", re.DOTALL)


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)
