"""What the journal entry under way knows before the journal does: names that changed, loads that began again."""

from __future__ import annotations

from replicator.engine.capture.journal_entry import DEAD_LETTER_BYTES, JournalEntryBuilder
from replicator.errors import UnsupportedType, ValueDoesNotFit
from replicator.model.change import Operation, UndecodableRow
from replicator.model.identifiers import TableId
from replicator.state.journal import Checkpoint, EventKind, ReloadRequest, TableEvent

A, B, C, D = (TableId("shop", name) for name in "abcd")


def entry() -> JournalEntryBuilder:
    return JournalEntryBuilder(Checkpoint({}, 0, "server"))


def rename(building: JournalEntryBuilder, old: TableId, new: TableId) -> None:
    detail = {"new": [new.database, new.name]}
    building.events.append(TableEvent(old, building.take(), EventKind.RENAME_TABLE, detail=detail))
    building.rename(old, new)


def drop(building: JournalEntryBuilder, table: TableId) -> None:
    building.events.append(TableEvent(table, building.take(), EventKind.DROP_TABLE))
    building.drop(table)


def test_a_chain_of_renames_is_followed() -> None:
    """RENAME TABLE a TO d, b TO a, d TO b: a mark in the log after it names tables by what they were called before."""
    building = entry()
    for old, new in ((A, D), (B, A), (D, B)):
        rename(building, old, new)
    assert (building.present(A), building.present(B), building.present(C)) == (B, A, C)


def test_a_dropped_table_has_no_present_name_even_if_another_was_made_under_it() -> None:
    building = entry()
    rename(building, A, B)
    drop(building, B)
    building.events.append(TableEvent(A, building.take(), EventKind.CREATE_TABLE))
    assert building.present(A) is None


def test_a_table_that_left_its_name_and_came_back_was_moved() -> None:
    building = entry()
    for old, new in ((A, D), (B, A), (D, B), (A, D), (B, A), (D, B)):
        rename(building, old, new)
    assert building.present(A) == A
    assert (building.moved(A), building.moved(B), building.moved(C)) == (True, True, False)


def test_what_was_to_happen_to_a_table_does_not_happen_to_another_that_takes_its_name() -> None:
    """Its own rename was not seen: it had failed."""
    building = entry()
    building.reloads.append(ReloadRequest(B, 1, fresh=True, reason="a DDL"))
    building.failures.append((B, UnsupportedType("what is a FROB?")))
    rename(building, A, B)
    assert (building.reloads, building.failures) == ([], [])
    building.failures.append((B, UnsupportedType("what is a FROB?")))
    building.create(B)
    assert (building.created, building.failures) == ([B], [])


def test_what_was_to_happen_goes_along_with_a_rename_and_ends_with_a_drop() -> None:
    building = entry()
    building.reloads += [
        ReloadRequest(A, 1, fresh=True, reason="a DDL"),
        ReloadRequest(C, 1, fresh=True, reason="a DDL"),
    ]
    building.failures += [(A, UnsupportedType("what is a FROB?")), (C, UnsupportedType("what is a FROB?"))]
    rename(building, A, B)
    assert [request.table for request in building.reloads] == [B, C]
    drop(building, B)
    assert [request.table for request in building.reloads] == [C]
    assert [table for table, _ in building.failures] == [C]
    assert building.dropped == [B]


def test_a_run_that_is_to_follow_another_does_not_end_it() -> None:
    building = entry()
    building.reloads.append(ReloadRequest(A, 1, fresh=True, reason="a parent's rows went", again=True))
    assert not building.superseded(A)
    building.reloads.append(ReloadRequest(A, 2, fresh=True, reason="a DDL"))
    assert building.superseded(A)
    assert not building.superseded(B)


def test_a_load_that_mends_a_cascade_begins_behind_the_last_one() -> None:
    """DELETE parents; UPDATE children; ALTER children; UPDATE children; DELETE parents: the last one took rows
    silently.

    Neither the load that the ALTER asks for nor one from the first DELETE on removes what the second UPDATE left in the
    log.
    """
    building = entry()
    assert building.read_again(ReloadRequest(A, 10, fresh=False, reason="a cascade", again=True))
    building.reloads.append(ReloadRequest(A, 20, fresh=True, reason="a DDL"))
    assert not building.read_again(ReloadRequest(A, 30, fresh=False, reason="a cascade", again=True))
    assert building.read_again(ReloadRequest(B, 40, fresh=False, reason="a cascade", again=True))
    asked = [(request.table, request.sequence, request.again) for request in building.reloads]
    assert asked == [(A, 20, False), (A, 30, True), (B, 40, True)]


def test_dead_letter_rows_take_their_numbers_and_no_more_memory_than_there_is_for_them() -> None:
    building = JournalEntryBuilder(Checkpoint({}, 100, "server"))
    data = bytes(DEAD_LETTER_BYTES // 2)
    for ordinal in range(3):
        building.add_dead_letter(
            A, UndecodableRow(ordinal, Operation.INSERT, None, "t", "x:1", ValueDoesNotFit("bad"), data + b"!", 7)
        )
    assert [dead_letter.sequence for dead_letter in building.dead_letters] == [100, 101, 102]
    assert [len(dead_letter.row.data) for dead_letter in building.dead_letters] == [len(data) + 1, len(data) - 1, 0]
    assert building.next_sequence == 103
