"""The cause of a schema version is kept with the version and shown on the timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from replicator.model.schema import Column
from replicator.model.types import STRING
from replicator.state.journal import EventKind, SchemaVersion, TableEvent
from tests.integration.control.conftest import ITEMS, ORDERS, Captured, schema_of, segment
from webapp.monitoring.models import TimelineEvent
from webapp.replicators import models
from webapp.replicators.lineage import table_lineage
from webapp.replicators.services.tables import resnapshot_table

pytestmark = [pytest.mark.django_db, pytest.mark.integration]
V1 = SchemaVersion(1, schema_of(ORDERS))


def altered(version: int, schema: Any, **detail: Any) -> dict[str, Any]:
    event = TableEvent(ORDERS, 10 * version, EventKind.ALTER_TABLE, version, None, {"statement": "ALTER …"} | detail)
    return {"schemas": (SchemaVersion(version, schema, 10 * version),), "events": (event,)}


def renamed_schema() -> Any:
    first = schema_of(ORDERS)
    columns = tuple(replace(c, name="title") if c.name == "name" else c for c in first.columns)
    return replace(first, columns=columns)


def test_a_rename_is_known_when_its_event_is_long_gone(captured: Captured) -> None:
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    change = altered(2, renamed_schema(), renamed_columns={"name": "title"}, decision="rename column name to title")
    captured.commit(next_sequence=21, **change)
    models.TableEventRow.objects.all().delete()
    row = captured.row(ORDERS)
    found = table_lineage(row)
    assert found is not None
    line = next(line for run in found.runs for line in run.lines if line.source == "title")
    assert (line.was, [step.text for step in line.life.steps][1:]) == ("name", ["name renamed to title"])  # type: ignore[union-attr]
    note = TimelineEvent.objects.get(kind="schema_changed")
    assert note.summary == "shop.orders has schema version 2: 1 change"
    assert note.detail == {
        "version": 2,
        "changes": ["name renamed to title"],
        "decision": "rename column name to title",
    }


def test_a_first_version_is_no_change(captured: Captured) -> None:
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    assert not TimelineEvent.objects.filter(kind="schema_changed").exists()
    assert models.SchemaVersion.objects.get().change["left_out"] == []


def test_columns_that_the_selection_leaves_out_are_noted_with_the_version(captured: Captured) -> None:
    captured.replicator.selection.update(excluded_columns=["name"])
    captured.commit(next_sequence=10, schemas=(V1,), segments=(segment(ORDERS, 0, 9),))
    captured.replicator.selection.update(excluded_columns=[])  # later the user thinks better of it
    assert models.SchemaVersion.objects.get().definition.left_out == {"name"}


def test_a_kept_column_is_there_until_the_target_is_made_anew(captured: Captured) -> None:
    first = schema_of(ORDERS, extra=("note",))
    captured.commit(next_sequence=10, schemas=(SchemaVersion(1, first),), segments=(segment(ORDERS, 0, 9),))
    captured.commit(next_sequence=21, **altered(2, schema_of(ORDERS), keep_dropped=True))
    row = captured.row(ORDERS)

    def kept() -> list[str]:
        found = table_lineage(models.ReplicatorTable.objects.get(pk=row.pk))
        assert found is not None
        return [line.target for run in found.runs for line in run.lines if line.fate == "kept"]

    assert kept() == ["note"]
    assert not row.load_complete
    resnapshot_table(table=row)  # not whole yet, so it is loaded afresh
    assert kept() == []


def test_many_versions_at_once_cost_one_look_at_the_selection(captured: Captured) -> None:
    schemas = tuple(
        SchemaVersion(version, replace(schema_of(ORDERS), columns=schema_of(ORDERS).columns + _extra(version)), version)
        for version in range(1, 9)
    )
    with CaptureQueriesContext(connection) as seen:
        captured.commit(next_sequence=40, schemas=(*schemas, SchemaVersion(1, schema_of(ITEMS))))
    looks = [query for query in seen if 'NOT ("replicators_tableselection"."excluded_columns"' in query["sql"]]
    assert len(looks) == 1
    assert TimelineEvent.objects.filter(kind="schema_changed").count() == 7


def _extra(version: int) -> tuple[Column, ...]:
    return tuple(Column(f"extra_{n}", STRING, nullable=True, source_type="text") for n in range(version))
