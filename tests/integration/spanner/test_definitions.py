"""Definitions in Spanner: made once, also if the worker dies between two steps; tables that are copied; names."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal

import pytest

from replicator import faults
from replicator.errors import TargetConflict, TargetError, UnsupportedDdl
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.targets.base import Create, Drop, Evolve, Merge, Rename, Replace, TargetChange, TargetTable
from replicator.targets.spanner.config import destination
from replicator.targets.spanner.connection import SpannerSession
from replicator.targets.spanner.names import IDENTIFIERS, column_name
from replicator.verification.warehouses.spanner import spanner_name
from tests.integration.warehouse.clouds import SpannerCopies
from tests.staged import delete, insert, read, schema_of, update

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
WIDER = schema_of({"id": "bigint", "v": "string", "w": "float"}, ["id"])
OTHERS = schema_of({"id": "int", "w": "string"}, ["id"])
KEYLESS = schema_of({"v": "string", "n": "int"})
ROWS = Counter([(1, "a"), (2, "b")])


def filled(copies: SpannerCopies) -> TargetTable:
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    return table


def pending(copies: SpannerCopies, table: TargetTable) -> str:
    ((said,),) = copies.query(
        f"SELECT pending FROM `{table.namespace}`.tidemark_positions WHERE table_name = '{table.name}'"
    )
    return str(said)


CHANGES: dict[str, TargetChange] = {
    "create": Create(WIDER, 2, 9, "L2"),
    "add": Evolve(WIDER, 2),
    "copy": Evolve(OTHERS, 2, {"v": "w"}),
    "drop": Drop(),
}


@pytest.mark.parametrize("point", ["apply.step.before", "apply.step.between", "apply.step.after"])
@pytest.mark.parametrize("how", CHANGES)
def test_definitions_are_made_whole_whatever_ends_between_two_steps(
    copies: SpannerCopies, how: str, point: str
) -> None:
    table = filled(copies)
    faults.arm([Fault(point, "fail")])
    with pytest.raises(FaultInjected):
        copies.another_worker().apply(table, CHANGES[how], "L1")
    faults.disarm()
    worker = copies.another_worker()
    at = worker.position(table)
    worker.apply(table, CHANGES[how])
    if how == "drop":
        assert worker.position(table) is None
        assert table.name not in copies.tables()
    else:
        assert at is not None
        expected = {"create": Counter(), "add": Counter((*row, None) for row in ROWS), "copy": ROWS}
        assert Counter(copies.rows(table)) == expected[how]
        assert pending(copies, table) == ""
    assert not [name for name in copies.tables() if name.startswith(("tidemark_new", "tidemark_old"))]


def test_a_definition_that_cannot_be_made_is_in_the_way_of_its_load_only(copies: SpannerCopies) -> None:
    table, key = filled(copies), [f"k{number}" for number in range(17)]
    with pytest.raises(UnsupportedDdl, match="a key of 17 columns"):
        copies.target.apply(table, Create(schema_of(dict.fromkeys(key, "int"), key), 2, 9, "L2"), "L1")
    worker = copies.another_worker()
    at = worker.position(table)
    assert at is not None
    assert (at.load, type(at.error)) == ("L2", UnsupportedDdl)
    with pytest.raises(UnsupportedDdl, match="a key of 17 columns"):
        worker.apply(table, Evolve(KEYED, 3), "L2")
    worker.apply(table, Create(OTHERS, 3, 9, "L3"), "L2")
    at = worker.position(table)
    assert at is not None
    assert (at.load, at.error, pending(copies, table)) == ("L3", None, "")
    assert copies.query(f"SELECT id, w FROM `{table.namespace}`.`{table.name}`") == []


@pytest.mark.parametrize("point", ["apply.step.before", "apply.step.between", "apply.step.after"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_table_is_renamed_with_its_position(copies: SpannerCopies, point: str, elsewhere: bool) -> None:
    table = filled(copies)
    new = TargetTable(f"{copies.namespace}_{table.name}" if elsewhere else copies.namespace, f"{table.name}_new")
    faults.arm([Fault(point, "fail")])
    with pytest.raises(FaultInjected):
        copies.another_worker().apply(table, Rename(new), "L1")
    faults.disarm()
    worker = copies.another_worker()
    at = worker.position(new)
    assert at is not None
    assert (at.applied, at.load) == (1, "L1")
    assert worker.position(table) is None
    worker.apply(table, Rename(new))
    assert Counter(copies.rows(new)) == ROWS
    assert table.name not in copies.tables()
    staged = copies.segment(KEYED, [delete(2, 1, "a")])
    worker.apply(new, Merge([staged], KEYED, 2), "L1")
    assert copies.rows(new) == [(2, "b")]
    again = copies.table(KEYED, table.name)  # the name is free
    assert copies.rows(again) == []
    with pytest.raises(TargetError, match="still exists"):
        worker.apply(again, Rename(new), "L1")


def test_a_definition_that_comes_late_is_not_made_again(copies: SpannerCopies) -> None:
    """A worker that stood still right before it, and whose successor has dropped and made the table meanwhile."""
    table = filled(copies)
    session, statement = SpannerSession(destination(copies.settings)), f"DROP TABLE {copies.place(table)}"
    session.define([statement], "t_late")
    copies.another_worker("r2").apply(table, Create(KEYED, 1, -1, "L2"), "(none)")
    session.define([statement], "t_late")
    assert table.name in copies.tables()
    session.close()


def test_a_definition_that_spanner_refuses_is_tried_again_when_its_cause_is_gone(copies: SpannerCopies) -> None:
    table = filled(copies)
    session = SpannerSession(destination(copies.settings))
    session.define([f"CREATE INDEX `{copies.namespace}`.by_v ON {copies.place(table)} (v)"], "t_index")
    change = Evolve(schema_of({"id": "int"}, ["id"]), 2)
    for _ in range(2):
        with pytest.raises(TargetError) as told:
            copies.target.apply(table, change, "L1")
        assert told.value.retryable
        assert "Drop what depends" in told.value.remedy
    assert json.loads(pending(copies, table))["steps"][0] == ["drop_column", "v"]
    session.define([f"DROP INDEX `{copies.namespace}`.by_v"], "t_no_index")
    session.close()
    assert copies.another_worker().position(table) is not None
    assert Counter(copies.rows(table)) == Counter([(1,), (2,)])


def test_a_definition_waits_for_a_transaction_that_the_emulator_has_open(copies: SpannerCopies) -> None:
    table = filled(copies)
    with copies.spanner.database_session() as session:
        transaction = session.transaction()
        transaction.begin()
        list(transaction.execute_sql("SELECT 1"))
        transaction.rollback()
    copies.target.apply(table, Evolve(WIDER, 2), "L1")
    assert Counter(copies.rows(table)) == Counter((*row, None) for row in ROWS)


def test_another_key_and_a_key_of_another_type_copy_the_table(copies: SpannerCopies) -> None:
    table = filled(copies)
    other = schema_of({"id": "int", "v": "string"}, ["v", "id"])
    copies.target.apply(table, Evolve(other, 2), "L1")
    staged = copies.segment(other, [update(2, (1, "a"), (1, "A")), delete(3, 2, "b")], 2)
    copies.target.apply(table, Merge([staged], other, 3), "L1")
    assert copies.rows(table) == [(1, "A")]
    texts = schema_of({"id": "string", "v": "string"}, ["id"])
    copies.target.apply(table, Evolve(texts, 3), "L1")
    staged = copies.segment(texts, [insert(4, "x", "b")], 3)
    copies.target.apply(table, Merge([staged], texts, 4), "L1")
    assert Counter(copies.rows(table)) == Counter([("A", None), ("b", "x")])
    keyless = schema_of({"v": "string"})
    copies.target.apply(table, Evolve(keyless, 4), "L1")
    copies.target.apply(table, Merge([copies.segment(keyless, [insert(5, "b")], 4)], keyless, 5), "L1")
    assert Counter(copies.rows(table)) == Counter([("A",), ("b",), ("b",)])


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SOFT_DELETE])
def test_of_rows_that_share_their_new_key_the_one_that_is_there_stays(copies: SpannerCopies, mode: Mode) -> None:
    schema = schema_of({"id": "int", "k": "int"}, ["id"])
    table = copies.table(schema, mode=mode)
    copies.merge(table, schema, insert(0, 1, 7), insert(1, 2, 7), insert(2, 3, 8), delete(3, 2, 7))
    copies.target.apply(table, Evolve(schema_of({"id": "int", "k": "int"}, ["k"]), 2), "L1")
    assert Counter(row[:2] for row in copies.rows(table)) == Counter([(1, 7), (3, 8)])


def test_a_decimal_that_becomes_too_wide_for_a_number_becomes_a_text(copies: SpannerCopies) -> None:
    schema, wide = (schema_of({"id": "int", "d": f"decimal({digits},2)"}, ["id"]) for digits in (20, 38))
    table = copies.table(schema)
    copies.merge(table, schema, insert(0, 1, Decimal("-1.50")), insert(1, 2, None))
    copies.target.apply(table, Evolve(wide, 2), "L1")
    assert copies.columns(table)["d"] == "STRING(MAX)"
    most = Decimal("9" * 36 + ".99")
    copies.target.apply(table, Merge([copies.segment(wide, [insert(2, 3, most)], 2)], wide, 2), "L1")
    assert Counter(copies.query(f"SELECT d FROM {copies.place(table)}")) == Counter([("-1.50",), (None,), (str(most),)])


def test_rows_beyond_one_commit_take_the_place_of_all_at_once(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_mutations", 30)
    worker, table = copies.another_worker(), copies.table(KEYLESS)
    copies.merge(table, KEYLESS, insert(0, "old", 1), insert(1, "old", 1))
    chunk = copies.segment(KEYLESS, [read(n, "new", n) for n in range(10, 60)])
    change = Replace([chunk], KEYLESS, 1, 59, 59, "L2")
    faults.arm([Fault("apply.publish.before", "fail")])
    with pytest.raises(FaultInjected):
        worker.apply(table, change, "L1")
    faults.disarm()
    assert Counter(copies.rows(table)) == Counter({("old", 1): 2})
    assert "discard" in pending(copies, table)
    at = copies.target.position(table)
    assert at is not None
    assert at.load == "L1"
    assert not [name for name in copies.tables() if name.startswith("tidemark_new")]
    assert worker.apply(table, change, "L1").how == "replace (in a new table)"
    assert Counter(copies.rows(table)) == Counter(("new", n) for n in range(10, 60))
    assert copies.tables() == {table.name, "tidemark_positions"}


def test_a_table_that_is_discarded_meanwhile_refuses_what_fills_it(
    copies: SpannerCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stood still, and whose successor has gone on."""
    from replicator.targets.spanner.schema_update import Rebuild

    table, put = filled(copies), Rebuild.put

    def late(self: Rebuild, rows: object) -> None:
        assert copies.another_worker().position(table) is not None
        put(self, rows)

    monkeypatch.setattr(Rebuild, "put", late)
    with pytest.raises(TargetConflict):
        copies.target.apply(table, Evolve(OTHERS, 2, {"v": "w"}), "L1")
    assert Counter(copies.rows(table)) == ROWS
    assert copies.tables() == {table.name, "tidemark_positions"}


def test_columns_have_names_that_spanner_takes() -> None:
    taken = {"id", "Select", "a1_", "x" * 128}
    assert {column_name(name) for name in taken} == taken
    odd = ["_id", "a b", "a-b", "1st", "ä", "", "x" * 129, "tidemark_sequence_num", "_", "_sequence_num"]
    made = [column_name(name) for name in odd]
    assert len({name.lower() for name in made}) == len(odd)
    assert all(name[0].isalpha() and name.isascii() and len(name) <= 128 for name in made)
    assert made[-1] == "tidemark_sequence_num"
    assert [spanner_name(name) for name in (*taken, *odd)] == [column_name(name) for name in (*taken, *odd)]
    assert IDENTIFIERS.legal("tidemark_positions") != "tidemark_positions"
    assert IDENTIFIERS.legal("Orders").startswith("orders_")
    assert IDENTIFIERS.legal("_x")[0] == "t"


def test_columns_that_differ_in_case_only_stop_the_table(copies: SpannerCopies) -> None:
    both = schema_of({"id": "int", "Name": "string", "name": "string"}, ["id"])
    for apply in (lambda: copies.table(both), lambda: copies.target.apply(filled(copies), Evolve(both, 2), "L1")):
        with pytest.raises(UnsupportedDdl, match=r"Name and name of shop\.t are one name in Spanner"):
            apply()


def test_a_column_of_somebody_else_stops_the_table_until_it_is_dropped(copies: SpannerCopies) -> None:
    table, session = filled(copies), SpannerSession(destination(copies.settings))
    session.define([f"ALTER TABLE {copies.place(table)} ADD COLUMN own ARRAY<STRING(MAX)>"], "t_own")
    with pytest.raises(UnsupportedDdl, match="did not create"):
        copies.target.position(table)
    session.define([f"ALTER TABLE {copies.place(table)} DROP COLUMN own"], "t_not_own")
    session.close()
    copies.merge(table, KEYED, insert(2, 3, "c"))
    assert Counter(copies.rows(table)) == ROWS + Counter([(3, "c")])


def test_a_table_that_somebody_dropped_can_be_made_again(copies: SpannerCopies) -> None:
    table, session = filled(copies), SpannerSession(destination(copies.settings))
    session.define([f"DROP TABLE {copies.place(table)}"], "t_gone")
    session.close()
    assert copies.target.position(table) is None
    copies.another_worker("r2").apply(table, Create(KEYED, 1, -1, "L5"), "(none)")
    assert copies.another_worker("r2").position(table) is not None
