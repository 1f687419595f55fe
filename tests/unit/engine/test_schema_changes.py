"""What a statement does to a run that reads its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.schema_changes import SchemaChanges
from replicator.engine.capture.table_registry import TableRegistry
from replicator.model.change import Ddl, SchemaChange
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import BIGINT
from replicator.state.journal import CapturePlan, Checkpoint, DdlAction, DdlSeen, SchemaVersion, TrackedTable
from replicator.state.tables import TableState

ORDERS = TableId("shop", "orders")


class Anything:
    """A stand-in for what is notified of a statement: any method returns None."""

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
    ("action", "said"),
    [
        (DdlAction.APPLY, "truncate: applied"),
        (DdlAction.IGNORE, "truncate: ignored by policy"),
        (DdlAction.STOP, "truncate: stopped by policy"),
    ],
)
def test_every_statement_is_told_with_what_was_decided(action: DdlAction, said: str) -> None:
    """An ignored TRUNCATE leaves no event and no schema version: `entry.seen` is its only record."""
    tracked = TrackedTable(ORDERS, TableState.STREAMING, SchemaVersion(1, schema("id")), run=None)
    plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(tracked,), checkpoint=None)
    entry, told = JournalEntryBuilder(Checkpoint({}, 0, "server")), Anything()
    changes = SchemaChanges(Journal(), {"truncate": action}, TableRegistry(plan, entry), entry, told, told, told)  # type: ignore[arg-type]
    changes.handle(
        SchemaChange(0, Ddl.TRUNCATE_TABLE, ORDERS, None, None, statement="TRUNCATE orders")  # type: ignore[arg-type]
    )
    assert entry.seen == [DdlSeen(ORDERS, "TRUNCATE_TABLE", "TRUNCATE orders", said)]
    assert entry.urgent()
    assert bool(entry.failures) is (action is DdlAction.STOP)


def test_a_table_that_is_made_again_goes_on_with_its_versions() -> None:
    """Those of a dropped or halted table are still in the journal, and segments name them."""
    plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(), checkpoint=None, gone={ORDERS: 3})
    entry, told = JournalEntryBuilder(Checkpoint({}, 0, "server")), Anything()
    changes = SchemaChanges(Journal(), {}, TableRegistry(plan, entry), entry, told, told, told)  # type: ignore[arg-type]
    for operation in (Ddl.CREATE_TABLE, Ddl.DROP_TABLE, Ddl.CREATE_TABLE):
        changes.handle(SchemaChange(0, operation, ORDERS, None, None, schema("id")))  # type: ignore[arg-type]
    assert [version.version for version in entry.schemas] == [4, 5]


@pytest.mark.parametrize("passed_over", ["late", "failed", "unknown"])
def test_a_table_that_nobody_follows_is_a_new_one_under_another_name(passed_over: str) -> None:
    """A restart from scratch in the midst of an exchange of names: the one in between has an ALTER and a RENAME."""
    parcels = TableId("shop", "parcels")
    late = {ORDERS} if passed_over == "late" else set()
    plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(), checkpoint=None)
    entry, told = JournalEntryBuilder(Checkpoint({}, 0, "server")), Anything()
    registry = TableRegistry(plan, entry, late)
    changes = SchemaChanges(Journal(), {}, registry, entry, told, told, told)  # type: ignore[arg-type]
    if passed_over == "failed":
        registry.ignore(ORDERS)
    operation = Ddl.ALTER_TABLE if passed_over == "unknown" else Ddl.RENAME_TABLE
    new = None if passed_over == "unknown" else parcels
    told_as = replace(schema("id"), table=new or ORDERS)
    changes.handle(SchemaChange(0, operation, ORDERS, None, None, told_as, new))  # type: ignore[arg-type]
    made = new or ORDERS
    assert [(event.table, event.kind.value) for event in entry.events] == [(made, "CREATE_TABLE")]
    assert (entry.created, entry.renamed) == ([made], [])
    assert [(one.table, one.fresh) for one in entry.reloads] == [(made, True)]
    assert registry.follows(made)


@pytest.mark.parametrize("late", [True, False])
def test_a_name_that_is_followed_later_only_is_not_followed_by_a_rename_to_it(*, late: bool) -> None:
    plan = CapturePlan(1, wanted=True, tables=TableSet(), tracked=(), checkpoint=None)
    entry, told = JournalEntryBuilder(Checkpoint({}, 0, "server")), Anything()
    other = TableId("shop", "other")
    registry = TableRegistry(plan, entry, {ORDERS, other} if late else {other})
    changes = SchemaChanges(Journal(), {}, registry, entry, told, told, told)  # type: ignore[arg-type]
    renamed = replace(schema("id"), table=other)
    changes.handle(SchemaChange(0, Ddl.RENAME_TABLE, ORDERS, None, None, renamed, other))  # type: ignore[arg-type]
    assert (entry.events, entry.reloads) == ([], [])


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
    entry, told = JournalEntryBuilder(Checkpoint({}, 0, "server")), Anything()
    changes = SchemaChanges(Journal(), {}, TableRegistry(plan, entry), entry, told, told, told)  # type: ignore[arg-type]
    changes.handle(
        SchemaChange(0, Ddl.ALTER_TABLE, ORDERS, None, None, after, renamed_columns=renamed)  # type: ignore[arg-type]
    )
    assert [request.table for request in entry.reloads] == [ORDERS] * again
    assert not any(request.fresh for request in entry.reloads)
