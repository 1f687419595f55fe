"""The example of the staging contract, as the CDAP design document has it, event by event on every target.

Sequence numbers are those of tests/integration/pipeline/test_cdap_example.py, which holds capture to the same document.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE, Column, TableSchema
from replicator.model.types import BIGINT
from replicator.targets.base import NO_TABLE, Create, Merge, Target, TargetTable
from tests.contract.targets.places import LONG, PLACES, TargetPlace
from tests.staged import Change, Row, delete, insert, schema_of, segment, update

pytestmark = [
    pytest.mark.integration,
    # Iceberg is played from the source's statements on; the other places say nothing new of the same code.
    pytest.mark.parametrize(
        "place",
        sorted(name for name in PLACES if not name.startswith("iceberg") and name not in LONG),
        indirect=True,
    ),
]
KEYED = schema_of({"id": "int", "name": "string"}, ["id"], TableId("shop", "customers"))
KEYLESS = schema_of({"name": "string"}, (), TableId("shop", "customers"))
# Each change, and what the table holds after it; a row's last value is the number of the change that made it.
WITH_A_KEY: list[tuple[Change, list[Row]]] = [
    (insert(2, 0, "alice"), [(0, "alice", 2)]),
    (update(3, (0, "alice"), (1, "alice")), [(1, "alice", 3)]),
    (update(4, (1, "alice"), (2, "alice")), [(2, "alice", 4)]),
    (delete(5, 2, "alice"), []),
    (insert(6, 0, "Alice"), [(0, "Alice", 6)]),
    (insert(7, 1, "blob"), [(0, "Alice", 6), (1, "blob", 7)]),
    (update(8, (1, "blob"), (1, "Bob")), [(0, "Alice", 6), (1, "Bob", 8)]),
]
# Of equal rows either may be the one that goes: of those only the names are known before the end.
WITHOUT_A_KEY: list[tuple[Change, list[str]]] = [
    (insert(2, "alice"), ["alice"]),
    (insert(3, "alice"), ["alice", "alice"]),
    (insert(4, "Bob"), ["alice", "alice", "Bob"]),
    (update(5, ("alice",), ("Alyce",)), ["alice", "Alyce", "Bob"]),
    (update(6, ("alice",), ("Alyce",)), ["Alyce", "Alyce", "Bob"]),
    (update(7, ("Alyce",), ("Alice",)), ["Alyce", "Alice", "Bob"]),
    (update(8, ("Alyce",), ("Alice",)), ["Alice", "Alice", "Bob"]),
    (delete(9, "Alice"), ["Alice", "Bob"]),
    (delete(10, "Alice"), ["Bob"]),
]


def made(place: TargetPlace, target: Target, schema: TableSchema, name: str) -> TargetTable:
    table = TargetTable(place.namespace, name)
    assert target.position(table) is None
    target.apply(table, Create(schema, 1, 1, "L1", Mode.MIRROR), NO_TABLE)
    return table


def numbered(schema: TableSchema, place: TargetPlace) -> TableSchema:
    """With the sequence numbers, where the target is a table that has them."""
    if place.kind.capabilities.unfolded:
        return schema
    return replace(schema, columns=(*schema.columns, Column(SEQUENCE, BIGINT, nullable=False, source_type="bigint")))


def test_with_a_primary_key(place: TargetPlace) -> None:
    target = place.target()
    table, shown = made(place, target, KEYED, "customers"), numbered(KEYED, place)
    for change, rows in WITH_A_KEY:
        target.apply(table, Merge([segment(place.storage, KEYED, [change])], KEYED, change.seq), "L1")
        expected = Counter(row[: len(shown.names)] for row in rows)
        assert place.read(table, shown, Mode.MIRROR) == expected, change


def test_without_a_primary_key(place: TargetPlace) -> None:
    target = place.target()
    table, shown = made(place, target, KEYLESS, "nameless"), numbered(KEYLESS, place)
    for change, names in WITHOUT_A_KEY:
        target.apply(table, Merge([segment(place.storage, KEYLESS, [change])], KEYLESS, change.seq), "L1")
        assert place.read(table, KEYLESS, Mode.MIRROR) == Counter((name,) for name in names), change
    assert place.read(table, shown, Mode.MIRROR) == Counter([("Bob", 4)[: len(shown.names)]])
