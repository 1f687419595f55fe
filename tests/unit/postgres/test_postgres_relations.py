"""What the log's reader makes of what the catalog shows: tables that come, go and take each other's names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replicator.model.change import Ddl
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import INT
from replicator.sources.postgres.catalog.attributes import ColumnFingerprint, ReplicaIdentity, TableDescription
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.shared.table_change import TableChange

A, B = TableId("shop", "a"), TableId("shop", "b")


def schema(table: TableId, oid: int) -> TableSchema:
    columns = (Column("id", INT, nullable=False, source_type="int"),)
    return TableSchema(table, columns, ("id",), identity=str(ColumnFingerprint(oid, str(oid), "c", "-")))


def described(table: TableId, oid: int) -> TableDescription:
    return TableDescription(schema(table, oid), (), oid, ReplicaIdentity.DEFAULT)


def relations(*schemas: TableSchema) -> Relations:
    catalog: Any = None  # is not asked: what it shows is given
    return Relations(catalog, TableSet(databases=frozenset({"shop"})), {one.table: one for one in schemas}, "null")


def steps(outcomes: Any) -> list[tuple[Ddl, TableId]]:
    found = list(outcomes)
    assert all(isinstance(one, TableChange) for one in found)
    return [(one.operation, one.table) for one in found]


def test_a_table_that_was_renamed_where_reading_began_is_not_known_twice() -> None:
    """It was followed as `a`; the user added `b`, which was described from a catalog that is ahead of the log."""
    both = relations(schema(A, 1), schema(B, 1))
    assert both.nameless() == [A]
    assert steps(both.seen({}, {1: B})) == [(Ddl.DROP_TABLE, A)]
    assert both.nameless() == []
    assert steps(both.seen({}, {1: B})) == []


def test_the_name_of_one_that_is_known_twice_may_be_taken() -> None:
    both = relations(schema(A, 1), schema(B, 1))
    assert steps(both.seen({2: described(A, 2)}, {1: B, 2: A})) == [(Ddl.DROP_TABLE, A), (Ddl.CREATE_TABLE, A)]
    both = relations(schema(A, 1), schema(B, 1))
    assert steps(both._become(schema(A, 2), {})) == [(Ddl.DROP_TABLE, A), (Ddl.CREATE_TABLE, A)]
    assert steps(both.seen({}, {1: B, 2: A})) == []


def test_names_that_were_exchanged_begin_anew() -> None:
    two = relations(schema(A, 1), schema(B, 2))
    seen = two.seen({1: described(B, 1), 2: described(A, 2)}, {1: B, 2: A})
    dropped, created = (Ddl.DROP_TABLE, Ddl.CREATE_TABLE)
    assert sorted(steps(seen)) == [(created, A), (created, B), (dropped, A), (dropped, B)]


def test_what_an_earlier_version_stored_is_not_taken_for_another_definition() -> None:
    """It knew neither a label's transaction nor an attachment's."""
    now = ColumnFingerprint(1, "p5:5:c70,6:66:a80", "c", "20:abcdef:70,20:fedcba:71,30:aaaaaa")
    assert not now.rewritten(ColumnFingerprint(1, "p5:5:c,6:66:a", "c", "20:abcdef,20:fedcba,30:aaaaaa"))
    assert now.rewritten(replace(now, types="20:abcdef:69,20:fedcba:71,30:aaaaaa")), "renamed and back"
    assert now.rewritten(replace(now, node="p5:5:c70,6:66:a79")), "detached and attached"
    assert not now.rewritten(replace(now, node="p5:5:a70,6:66:a80")), "renamed"
    assert now.with_partition(5) == now
    assert now.rewritten(now.with_partition(7)), "met in the log, and gone"
    assert not ColumnFingerprint(1, "p7:7:c90", "c", "-").rewritten(
        ColumnFingerprint(1, "p", "c", "-").with_partition(7)
    )


def test_a_partition_that_may_have_brought_rows_of_its_own_has_the_table_read_again() -> None:
    none = ColumnFingerprint(1, "p", "c", "-")
    for came in ("a90", "b90"):
        now = replace(none, node=f"p7:7:{came}")
        assert now.rewritten(none)
        assert now.rewritten(none.with_partition(7)), "met in the log meanwhile"
        assert now.attached_since(none) == {7: came}
        assert not now.rewritten(none.with_partition(7, "e90")), "it was empty"
        assert now.rewritten(none.with_partition(7, "e89")), "it was empty when it was attached another time"
    assert not replace(none, node="p7:7:c90").attached_since(none)
    assert not replace(none, node="p7:8:a90").attached_since(none), "rewritten: what it had before is not known"
