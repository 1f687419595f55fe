"""Routing rules: patterns of the source's names, and what they make of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicator.errors import ConfigurationError
from replicator.model.computed import Computed
from replicator.model.computed_rules import COMPUTED_COLUMNS, ComputedColumns
from replicator.model.identifiers import TableId
from replicator.model.routing import ROUTING, Route, Routing
from replicator.model.schema import Column, TableSchema
from replicator.model.types import STRING
from replicator.selection.computing import refusal

RULES = """
  shop_*.orders: sales.orders_{1}
  shop_*.*_log: lake.logs.{2}_of_{1}

  crm.*: lake.crm_{table}
  "my.schema".v?: {schema}.v{1}_{schema}
"""


def route(rules: str, schema: str, table: str) -> tuple[str, str] | None:
    found = Routing.of({ROUTING: rules}).route(TableId(schema, table))
    return None if found is None else found[:2]


@pytest.mark.parametrize(
    ("schema", "table", "target"),
    [
        ("shop_eu", "orders", ("sales", "orders_eu")),
        ("shop_", "orders", ("sales", "orders_")),
        ("shop_eu", "web_app_log", ("lake.logs", "web_app_of_eu")),
        ("crm", "People", ("lake", "crm_People")),
        ("my.schema", "v7", ("my.schema", "v7_my.schema")),
        ("my.schema", "v77", None),
        ("Shop_eu", "orders", None),
        ("shop", "orders", None),
    ],
)
def test_the_first_rule_that_fits_counts(schema: str, table: str, target: tuple[str, str] | None) -> None:
    assert route(RULES, schema, table) == target


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("shop.orders", "is not of the form"),
        ("orders: sales.orders", "is not of the form"),
        ("shop.orders: orders", "is not of the form"),
        ("shop.orders: .orders", "is not of the form"),
        ("shop.orders: sales.", "is not of the form"),
        ("shop.*: sales.{2}", "{2} in 'shop.*: sales.{2}' stands for nothing; there are {schema}, {table}, {1}."),
        ("shop.*: {name}.x", "{name} in"),
        ("shop.*: sales.{1", "a brace in"),
        ("shop.*: sales.1}", "a brace in"),
        ("shop.*: sales.one shared by tenant", "is not of the form"),
        ("shop.*: sales.one shared by = {1}", "is not of the form"),
        ("shop.*: sales.one shared by tenant = ", "is not of the form"),
        ("shop.*: sales.one shared by tenant = {2}", "{2} in"),
        ("shop.*: sales.one shared by _sequence_num = {1}", "is reserved or not a name"),
        ("shop.*: sales.one shared by it's = {1}", "is reserved or not a name"),
    ],
)
def test_a_rule_that_makes_no_sense_is_named(rule: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        Routing.of({ROUTING: f"crm.*: lake.{{table}}\n{rule}"})


@pytest.mark.parametrize(
    ("rule", "route"),
    [
        ("shop_*.orders: sales.orders shared by tenant = {1}", Route("sales", "orders", "tenant", "eu")),
        ("shop_*.*: sales.{2} shared by the tenant=shop {1} = {schema}",
            Route("sales", "orders", "the tenant", "shop eu = shop_eu")),
        ("*.*: lake.by shared by x shared by tenant = {2}", Route("lake", "by", "x shared by tenant", "orders")),
        ("*.*: lake.shared_by", Route("lake", "shared_by")),
    ],
)  # fmt: skip
def test_tables_share_a_target_table(rule: str, route: Route) -> None:
    found = Routing.of({ROUTING: rule})
    assert found.route(TableId("shop_eu", "orders")) == route
    assert found.shares is bool(route.column)
    computed = ComputedColumns.parse({ROUTING: rule, COMPUTED_COLUMNS: "*.*: tenant = 'x', n = 1"})
    assert bool(computed)
    of = computed.of(TableId("shop_eu", "orders"))
    if route.column:
        shared = of[route.column]
        assert next(iter(of)) == route.column
        assert (shared.value, shared.shared) == (route.value, f"{route.namespace}.{route.name}")
        assert Computed.from_dict(shared.to_dict()) == shared
        keyless = TableSchema(TableId("shop_eu", "orders"), (Column("a", STRING, True, ""),))
        assert "need a key" in refusal(route.column, shared, keyless)


NAMES = st.text("ab_.{}*1 ", min_size=1, max_size=8)


@given(NAMES, NAMES, st.data())
def test_what_a_star_stands_for_makes_up_the_name(schema: str, table: str, data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(table)))
    end = data.draw(st.integers(begin, len(table)))
    before, after = table[:begin], table[end:]
    if set(before + after + schema) & set("*.") or ": " in before + after or not (before or after):
        return
    found = route(f"{schema.strip() or 'a'}.{before}*{after}: x.{{1}}", schema.strip() or "a", table)
    if before.strip() == before and after.strip() == after:
        assert found == ("x", table[begin:end])


def test_many_stars_take_no_time() -> None:
    assert route(f"a.{'*a' * 40}b: x.y", "a", "a" * 255) is None


def test_patterns_of_a_schema_are_those_of_the_rules_that_fit_it() -> None:
    assert [str(one) for one in Routing.of({ROUTING: RULES}).patterns("shop_eu")] == ["shop_eu.orders", "shop_eu.*_log"]
