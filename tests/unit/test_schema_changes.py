"""What a statement does to a run that reads its table."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.engine.entry import EntryBuilder
from replicator.engine.schema_changes import SchemaChanges
from replicator.engine.tracking import Tracking
from replicator.model.change import Ddl, SchemaChange
from replicator.model.identifiers import TableId, TableSet
from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT
from replicator.state.journal import CapturePlan, Checkpoint, SchemaVersion, TrackedTable
from replicator.state.tables import TableState

ORDERS = TableId("shop", "orders")


class Anything:
    """Stands for what is told of a statement and answers nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Journal:
    """Of tables that are all read again."""

    def state(self, table: TableId) -> TableState:
        del table
        return TableState.RELOADING


def schema(*key: str) -> TableSchema:
    names = ("id", "number", *(name for name in key if name not in {"id", "number"}))
    return TableSchema(ORDERS, tuple(Column(name, BIGINT, nullable=False, source_type="bigint") for name in names), key)


@pytest.mark.parametrize(
    ("after", "renamed", "again"),
    [
        (schema("number"), {}, True),
        (schema("id", "number"), {}, True),
        (schema("id", "more"), {}, True),
        (schema("id"), {}, False),
        (schema("key"), {"id": "key"}, False),
    ],
)
def test_bounds_of_a_key_are_none_of_another(after: TableSchema, renamed: dict[str, str], *, again: bool) -> None:
    """ALTER TABLE … DROP PRIMARY KEY, ADD PRIMARY KEY (number) changes no row; the chunks were planned by id."""
    tracked = TrackedTable(
        ORDERS, TableState.RELOADING, SchemaVersion(1, schema("id")), run=1, live_from=-1, followed=True
    )
    plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(tracked,), checkpoint=None)
    entry, told = EntryBuilder(Checkpoint({}, 0, "server")), Anything()
    changes = SchemaChanges(Journal(), {}, Tracking(plan, entry), entry, told, told, told)  # type: ignore[arg-type]
    changes.handle(
        SchemaChange(0, Ddl.ALTER_TABLE, ORDERS, None, None, after, renamed_columns=renamed)  # type: ignore[arg-type]
    )
    assert [request.table for request in entry.reloads] == [ORDERS] * again
    assert not any(request.fresh for request in entry.reloads)
