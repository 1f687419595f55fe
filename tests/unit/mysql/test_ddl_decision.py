"""Policies decide about the difference that a statement makes."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.engine.capture.ddl import decide
from replicator.model.change import Ddl, SchemaChange
from replicator.model.evolution import plan_evolution
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT, INT, STRING, DataType
from replicator.state.journal import DdlAction

TABLE = TableId("shop", "t")


def schema(**columns: DataType) -> TableSchema:
    return TableSchema(TABLE, tuple(Column(name, kind, True, str(kind)) for name, kind in columns.items()))


def alter(after: TableSchema, **more: Any) -> SchemaChange:
    return SchemaChange(0, Ddl.ALTER_TABLE, TABLE, None, None, schema=after, **more)  # type: ignore[arg-type]


def test_the_difference_of_two_schemas() -> None:
    plan = plan_evolution(
        schema(a=INT, b=INT, c=INT, d=INT), schema(c=STRING, a=BIGINT, e=INT, x=INT), {"b": "x", "nothing": "y"}
    )
    assert plan.renamed == (("b", "x"),)
    assert plan.dropped == ("d",)
    assert [c.name for c in plan.added] == ["e"]
    assert [c.name for c in plan.widened] == ["a"]
    assert [c.name for c in plan.replaced] == ["c"]
    assert plan.order == ("c", "a", "e", "x")


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        (schema(a=INT, b=INT), "add_column"),
        (schema(), "drop_column"),
        (schema(a=BIGINT), "change_type"),
    ],
)
def test_a_stop_policy_stops_at_its_kind_only(after: TableSchema, kind: str) -> None:
    before = schema(a=INT)
    assert decide(alter(after), before, {kind: DdlAction.STOP}).action is DdlAction.STOP
    others = {"add_column", "drop_column", "change_type", "rename_column"} - {kind}
    assert decide(alter(after), before, dict.fromkeys(others, DdlAction.STOP)).action is DdlAction.APPLY


def test_ignored_drops_keep_the_column() -> None:
    decision = decide(alter(schema()), schema(a=INT), {"drop_column": DdlAction.IGNORE})
    assert (decision.action, decision.keep_dropped) == (DdlAction.APPLY, True)


def test_an_index_changes_nothing() -> None:
    assert "nothing to change" in decide(alter(schema(a=INT)), schema(a=INT), {}).text
