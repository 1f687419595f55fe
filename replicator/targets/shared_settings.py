"""Settings that replicators have for targets of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replicator.model.computed_rules import COMPUTED_COLUMNS, ComputedColumns
from replicator.sources.base import FormField
from replicator.targets.routing import ROUTING, Routing

SHARED_FORM = (
    FormField(
        ROUTING, "Routing rules", "textarea", required=False, keeps_secret=True,
        help="One line per table or pattern, the first that fits counts: shop_*.orders: sales.orders_{1}. {schema} and"
        " {table} stand for the source’s names, {1}, {2}, … for what the stars and question marks stood for. The name"
        " is complete: no prefix is added. Other tables are named by their schema and table.",
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
    " pages.",
    COMPUTED_COLUMNS: "Takes effect within a minute. Tables whose computed columns change are resnapshotted.",
}


def check_shared(settings: Mapping[str, Any]) -> None:
    """Raises ConfigurationError that names the line."""
    Routing.of(settings)
    ComputedColumns.parse(settings)
