"""Settings that replicators have for targets of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.errors import ConfigurationError
from replicator.model.computed_rules import COMPUTED_COLUMNS, ComputedColumns
from replicator.model.routing import ROUTING, Routing
from replicator.sources.base import FormField

PREFIX = "namespace_prefix"
MAX_PREFIX_LENGTH = 100  # with a database's name behind it, it must fit where a namespace is stored
SHARED_FORM = (
    FormField(
        ROUTING, "Routing rules", "textarea", required=False, keeps_secret=True,
        help="One line per table or pattern, the first that fits counts: shop_*.orders: sales.orders_{1}. {schema} and"
        " {table} stand for the source’s names, {1}, {2}, … for what the stars and question marks stood for. The name"
        " is complete: no prefix is added. Other tables are named by their schema and table. With shop_*.orders:"
        " sales.orders shared by tenant = {1} the tables share one target table, whose column tenant tells their rows"
        " apart.",
    ),
    FormField(
        COMPUTED_COLUMNS, "Computed columns", "textarea", required=False, keeps_secret=True,
        help="One line per table or pattern: shop.*: tenant = 'eu', committed_at = commit_time, amount_text ="
        " cast(amount as string). Values are a 'text', a number, true, false, commit_time, offset, operation (of the"
        " row’s last change), or a cast of a column to string, bigint, double, date or decimal(p, s). A table has the"
        " columns of all lines that fit it.",
    ),
)  # fmt: skip
SHARED_EFFECTS = {
    ROUTING: "Takes effect for tables that are added later. Tables that exist keep their names; change those on their"
    " pages. A table that shares its target table keeps its rule.",
    COMPUTED_COLUMNS: "Takes effect within a minute. Tables whose computed columns change are resnapshotted.",
}


def prefixed(settings: Mapping[str, Any], database: str) -> str:
    """The namespace of a database's tables, for kinds that have a `namespace_prefix`."""
    return f"{settings.get(PREFIX, '')}{database}"


def check_prefix(settings: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for one that is too long."""
    if len(str(settings.get(PREFIX, ""))) > MAX_PREFIX_LENGTH:
        raise ConfigurationError(
            f"target: namespace_prefix must be a string of at most {MAX_PREFIX_LENGTH} characters."
        )


def check_shared(settings: Mapping[str, Any]) -> None:
    """Raises ConfigurationError that names the line."""
    Routing.of(settings)
    ComputedColumns.parse(settings)
