"""What the engine relies on, asked of every source in the same words."""

from __future__ import annotations

import itertools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replicator.errors import ConditionRefused, KeyChanged, SelectionDoesNotFit, TableDisappeared
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    SchemaChange,
    TableFailed,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import CheckStatus, KeyRange, MeasuredLog, ReadOptions, RetainedLog, SnapshotReader
from tests.contract.place import REPLICATOR, Place, changes

pytestmark = pytest.mark.integration
KEYED = "CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20))"


def rows(reader: SnapshotReader, table: TableId, bounds: KeyRange | None = None) -> list[dict[str, Any]]:
    chunk = reader.read_chunk(table, bounds or KeyRange())
    found: list[dict[str, Any]] = pa.Table.from_batches(chunk.batches, schema=chunk.schema.row_arrow).to_pylist()
    return found


# The connection test


def test_a_server_that_is_set_up_right_passes_and_nothing_is_raised_for_one_that_is_not(place: Place) -> None:
    place.run(KEYED)
    tables = TableSet(tables=frozenset({place.table("t")}))
    assert {result.status for result in place.source.check(tables)} <= {
        CheckStatus.OK,
        CheckStatus.WARNING,
        CheckStatus.SKIPPED,
    }
    for wrong in place.wrong:
        first, *others = place.kind.open({**place.config, **wrong}).check()
        assert first.status is CheckStatus.FAILED
        assert first.remedy
        assert {result.status for result in others} == {CheckStatus.SKIPPED}
        assert "s3cret!" not in repr([first, *others])


# Discovery


def test_threads_that_ask_at_once_how_names_are_compared_have_one_answer(place: Place) -> None:
    """Readers of a snapshot do, over one connection."""
    for _ in range(5):
        source = place.kind.open(place.config)
        with ThreadPoolExecutor(6) as pool:
            rules = [asked.result() for asked in [pool.submit(source.names) for _ in range(6)]]
        source.close()
        assert {id(rule) for rule in rules} == {id(rules[0])}
        assert rules[0].name("t") == place.source.names().name("t") == "t"


def test_discovery_tells_tables_keys_and_what_is_not_there(place: Place) -> None:
    place.keyless("nokey")
    place.run(KEYED, "CREATE TABLE @.two (b int, a int, v int, PRIMARY KEY (b, a))")
    catalog = place.source.catalog()
    assert place.name in {one.name for one in catalog.databases()}
    listed, total = catalog.tables(database=place.name, limit=2)
    assert ([one.table.name for one in listed], total) == (["nokey", "t"], 3)
    assert catalog.tables(database=place.name, search="TW")[1] == 1
    names = [place.table(name) for name in ("t", "nokey", "gone")]
    assert {table.name: info.key for table, info in catalog.infos(names).items()} == {"t": "primary", "nokey": ""}
    described = place.described("t", "nokey", "two", "gone")
    assert {table.name: schema.key for table, schema in described.items()} == {
        "t": ("id",),
        "nokey": (),
        "two": ("b", "a"),
    }
    assert [str(column.type) for column in described[place.table("t")].columns] == ["int", "string"]
    assert [column.nullable for column in described[place.table("t")].columns] == [False, True]


# The log


def test_every_committed_change_comes_once_in_commit_order_with_its_images(place: Place) -> None:
    place.run(KEYED, "CREATE TABLE @.other (id int PRIMARY KEY)")
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, 'a'), (2, 'b')")
    place.undo("INSERT INTO @.t VALUES (9, 'never')", "DELETE FROM @.t")
    place.run(
        "UPDATE @.t SET v = 'c' WHERE id = 1", "UPDATE @.t SET id = 3 WHERE id = 2", "INSERT INTO @.other VALUES (1)"
    )
    place.run(
        "SAVEPOINT s", "INSERT INTO @.t VALUES (8, 'never')", "ROLLBACK TO SAVEPOINT s", "DELETE FROM @.t WHERE id = 1"
    )
    messages = place.read(start)
    moved = [("UPDATE", 3, "b", 2)] if place.moves else [("DELETE", 2, None, 2), ("INSERT", 3, "b", None)]
    expected = [
        ("INSERT", 1, "a", None),
        ("INSERT", 2, "b", None),
        ("UPDATE", 1, "c", 1),
        *moved,
        ("DELETE", 1, None, 1),
    ]
    assert changes(messages, "id", "v", "_before_id") == expected
    numbers = [row for m in messages if isinstance(m, ChangeBatch) for row in m.data.column(0).to_pylist()]
    assert sorted(numbers) == list(range(numbers[0], numbers[0] + len(expected)))
    assert {m.table for m in messages if isinstance(m, ChangeBatch)} == {place.table("t")}


def test_reading_resumes_at_every_commit_without_a_gap_or_a_repetition(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    for n in range(6):
        place.run(f"INSERT INTO @.t VALUES ({n}, 'x')", f"UPDATE @.t SET v = 'y' WHERE id = {n}")
    messages = place.read(start)
    whole, before = changes(messages, "id"), list[LogMessage]()
    for message in messages:
        before.append(message)
        if isinstance(message, Commit):
            offset = place.kind.parse_offset(message.offset.to_dict())
            assert not (offset < message.offset)
            assert not (message.offset < offset)
            assert str(offset) == str(message.offset)
            assert [*changes(before, "id"), *changes(place.read(offset), "id")] == whole
    commits = [m.offset for m in messages if isinstance(m, Commit)]
    assert all(not (later < earlier) for earlier, later in itertools.pairwise(commits))


def test_a_transaction_ends_with_one_commit_however_large_it_is(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    values = [
        ", ".join(f"({n}, 'row {n}')" for n in range(first, first + 10_000)) for first in range(0, place.many, 10_000)
    ]
    place.run(*(f"INSERT INTO @.t VALUES {some}" for some in values))
    messages = place.read(start)
    batches = [at for at, message in enumerate(messages) if isinstance(message, ChangeBatch)]
    assert sum(messages[at].data.num_rows for at in batches) == place.many  # type: ignore[union-attr]
    assert not any(isinstance(message, Commit) for message in messages[batches[0] : batches[-1]])


def test_statements_are_told_at_their_place_and_rows_after_them_have_the_new_form(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, 'a')")
    place.run("ALTER TABLE @.t ADD COLUMN w int")
    place.run("INSERT INTO @.t VALUES (2, 'b', 7)")
    if place.truncates:
        place.run("TRUNCATE TABLE @.t")
    place.run("INSERT INTO @.t VALUES (3, 'c', 8)")
    told: list[Any] = []
    for message in place.read(start):
        if isinstance(message, ChangeBatch):
            told += [(row["id"], row.get("w")) for row in message.data.to_pylist()]
        elif isinstance(message, SchemaChange) and (message.statement or message.reload):
            told.append(message.operation)
    first = (1, None) if place.decodes_the_past else Ddl.ALTER_TABLE  # the table is read again
    assert told == [first, Ddl.ALTER_TABLE, (2, 7), *[Ddl.TRUNCATE_TABLE] * place.truncates, (3, 8)]


@pytest.mark.parametrize("failed", [False, True], ids=["followed", "failed before"])
def test_columns_left_out_of_a_table_stay_so_under_its_next_name(place: Place, *, failed: bool) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20), w varchar(20))")
    start, table, new = place.follow("t"), place.table("t"), place.table("n")
    everything = frozenset({table.above})
    place.source.tables = place.tables = TableSet(databases=everything, excluded_columns={table: frozenset({"v"})})
    place.schemas = place.described("t")
    if failed:
        halted = {table: place.schemas.pop(table).identity}
        place.tables = replace(place.tables, excluded=frozenset({table}), halted=halted)
    place.run("INSERT INTO @.t VALUES (1, 'secret', 'a')")
    place.rename("t", "n")
    place.run("INSERT INTO @.n VALUES (2, 'secret', 'b')")
    end, seen = place.log.state().offset, list[LogMessage]()
    for message in place.messages(start):
        seen.append(message)
        if isinstance(message, Commit | Heartbeat) and message.offset is not None and message.offset.covers(end):
            break
    told = [message for message in seen if isinstance(message, SchemaChange)]
    assert {message.moved for message in told} - {None} == {(table, new)}
    (*_, last) = [message for message in told if message.schema is not None and message.schema.table == new]
    assert last.schema is not None
    assert last.schema.names == ("id", "w")
    named = {name for message in told if message.schema is not None for name in message.schema.names}
    named |= {name for message in seen if isinstance(message, ChangeBatch) for name in message.data.schema.names}
    assert named >= {"id", "w"}
    assert "v" not in named
    assert "secret" not in str([message.data.to_pylist() for message in seen if isinstance(message, ChangeBatch)])


def test_a_column_left_out_that_is_renamed_stops_its_table(place: Place) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v varchar(20), w varchar(20))")
    start, table = place.follow("t"), place.table("t")
    place.source.tables = place.tables = replace(place.tables, excluded_columns={table: frozenset({"v"})})
    place.schemas = place.described("t")
    place.rename_column("t", "v", "x")
    place.run("INSERT INTO @.t VALUES (1, 'secret', 'a')")
    failed = next(message for message in place.messages(start) if isinstance(message, TableFailed | ChangeBatch))
    assert isinstance(failed, TableFailed)
    assert isinstance(failed.error, SelectionDoesNotFit)
    assert "has no column v, which is excluded" in failed.error.message


def test_a_mark_is_met_in_the_log_between_the_changes_around_it(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    place.run("INSERT INTO @.t VALUES (1, 'before')")
    token = place.mark()
    place.run("INSERT INTO @.t VALUES (2, 'after')")
    messages = place.read(start)
    (at,) = (at for at, message in enumerate(messages) if isinstance(message, Watermark) and message.token == token)
    assert (changes(messages[:at], "id"), changes(messages[at:], "id")) == ([("INSERT", 1)], [("INSERT", 2)])


def test_a_quiet_log_says_so_with_a_place_to_resume_from(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    beats = (m for m in place.messages(start) if isinstance(m, Heartbeat) and m.offset is not None and m.source_ts)
    found = [next(beats), next(beats)]
    beats.close()
    assert not (found[1].offset < found[0].offset)  # type: ignore[operator]
    assert found[0].source_ts <= found[1].source_ts  # type: ignore[operator]


def test_tables_that_the_source_had_are_told_before_a_place_that_covers_it(place: Place) -> None:
    place.run(KEYED)
    at = place.follow("t")
    place.tables = TableSet(databases=frozenset({place.table("t").above}))
    for name, changed in (("quiet", ()), ("busy", ("INSERT INTO @.t VALUES (1, 'x')", "DELETE FROM @.t"))):
        for statement in (*changed, f"CREATE TABLE @.{name} (id int PRIMARY KEY)", *changed):
            place.run(statement)
        end, seen = place.log.state().offset, list[LogMessage]()
        for message in place.messages(at):
            seen.append(message)
            if isinstance(message, Commit | Heartbeat) and message.offset is not None and message.offset.covers(end):
                at = message.offset
                break
        told = [m.table.name for m in seen if isinstance(m, SchemaChange) and m.operation is Ddl.CREATE_TABLE]
        assert told == [name]
        place.schemas |= place.described(name)


def test_rows_under_the_schema_that_holds_need_not_wait_for_the_log(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    schema = place.schemas[place.table("t")]
    reader = place.source.log_reader(REPLICATOR, ReadOptions())
    messages = reader.read(start, place.tables, place.schemas)
    next(messages)
    assert reader.learned(schema, schema) == schema
    messages.close()  # type: ignore[attr-defined]
    reader.close()


def test_what_the_source_keeps_for_a_replicator_can_be_taken_away_twice(place: Place) -> None:
    place.run(KEYED)
    start = place.follow("t")
    log = place.log
    if isinstance(log, MeasuredLog):
        held = log.held(start)
        assert held is not None
        assert held.bytes is not None
        assert not held.lost
    log.remove()
    log.remove()
    if isinstance(log, MeasuredLog):
        assert (log.held(start) is None) == isinstance(log, RetainedLog)
    else:
        assert not (place.log.state().offset < start)


# Snapshots


@pytest.mark.parametrize(
    "key",
    [
        "id int PRIMARY KEY",
        "id varchar(20) PRIMARY KEY",
        "id numeric(12, 3) PRIMARY KEY",
        "id int, extra int DEFAULT 1, PRIMARY KEY (extra, id)",
    ],
)
def test_chunks_cover_every_row_once(place: Place, key: str) -> None:
    place.run(f"CREATE TABLE @.t (v int, {key})")
    place.run("INSERT INTO @.t (id, v) VALUES " + ", ".join(f"({n * 7 % 101}, {n})" for n in range(101)))
    place.follow("t")
    table, reader = place.table("t"), place.source.snapshot_reader(REPLICATOR, ReadOptions())
    end, after, seen, chunks = reader.end_key(table), None, Counter[int](), 0
    assert end is not None
    while after != end:
        bound = reader.next_bound(table, after, end, 13)
        part = rows(reader, table, KeyRange(after, bound))
        assert 0 < len(part) <= 13
        seen.update(row["v"] for row in part)
        after, chunks = bound, chunks + 1
    assert rows(reader, table, KeyRange(end, None)) == []
    reader.close()
    assert seen == Counter(range(101))
    assert chunks == 8


def test_an_empty_table_has_no_end_and_a_missing_one_is_an_error(place: Place) -> None:
    place.run(KEYED)
    place.follow("t")
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    assert reader.end_key(place.table("t")) is None
    assert rows(reader, place.table("t")) == []
    with pytest.raises(TableDisappeared):
        reader.read_chunk(place.table("gone"), KeyRange())
    reader.close()


def test_bounds_of_another_key_are_the_tables_trouble_and_not_the_sources(place: Place) -> None:
    """ALTER TABLE … DROP PRIMARY KEY, ADD PRIMARY KEY, after its chunks were planned."""
    place.run(KEYED)
    place.follow("t")
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    with pytest.raises(KeyChanged, match="no longer has the key for which its chunks were planned"):
        reader.read_chunk(place.table("t"), KeyRange(None, ("1", "2")))
    reader.close()


@pytest.mark.parametrize(
    ("key", "given", "ids"),
    [
        ("id int PRIMARY KEY", [("3",), ("7",), ("1000",)], {3, 7}),
        ("id varchar(20) PRIMARY KEY", [("3",), ("it's \\ 5",), ("",)], {"3"}),
        ("id decimal(20, 3) PRIMARY KEY", [("3.000",), ("3.001",)], {3}),
        ("id date PRIMARY KEY", [("2026-01-03",), ("2027-01-01",)], {"2026-01-03"}),
        ("extra int DEFAULT 1, id int, PRIMARY KEY (extra, id)", [("1", "3"), ("1", "9"), ("2", "3")], {3, 9}),
    ],
)
def test_rows_are_read_by_their_keys(place: Place, key: str, given: list[tuple[str, ...]], ids: set[Any]) -> None:
    place.run(f"CREATE TABLE @.t (v int, {key})")
    values = [f"'2026-01-{n:02}'" if "date" in key else str(n) for n in range(1, 13)]
    place.run("INSERT INTO @.t (id, v) VALUES " + ", ".join(f"({value}, 1)" for value in values))
    place.follow("t")
    asked = KeyRange(keys=tuple(given))
    place.source.catalog().try_rows(place.table("t"), asked)
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    if "date" in key:
        ids = {place.day(one) for one in ids}
    assert {row["id"] for row in rows(reader, place.table("t"), asked)} == ids
    with pytest.raises(KeyChanged):
        reader.read_chunk(place.table("t"), KeyRange(keys=(("1", "2", "3"),)))
    reader.close()


def test_rows_are_read_by_a_condition_in_chunks_of_such_rows(place: Place) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v int)")
    place.run("INSERT INTO @.t VALUES " + ", ".join(f"({n}, {n % 10})" for n in range(200)))
    place.follow("t")
    table, where = place.table("t"), "v = 3 OR id = 199"
    place.source.catalog().try_rows(table, KeyRange(condition=where))
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    end, after, seen = reader.end_key(table, where), None, []
    assert end is not None
    while after != end:
        bound = reader.next_bound(table, after, end, 6, where)
        part = [row["id"] for row in rows(reader, table, KeyRange(after, bound, condition=where))]
        assert 0 < len(part) <= 6
        seen += sorted(part)  # a chunk has no order
        after = bound
    assert seen == [*range(3, 200, 10), 199]
    assert reader.end_key(table, "v = 77") is None
    reader.close()


@pytest.mark.parametrize(
    "wrong", ["nothing = 1", "v =", "1 = 1) OR (1 = 1", "1 = 1 THEN 1 ELSE 0 END = 1 OR CASE WHEN 1 = 1", "nope(v) = 1"]
)
def test_a_wrong_condition_is_the_users_and_is_told_in_a_sentence(place: Place, wrong: str) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v int)", "INSERT INTO @.t VALUES (1, 1)")
    place.follow("t")
    table = place.table("t")
    with pytest.raises(ConditionRefused, match="Invalid condition"):
        place.source.catalog().try_rows(table, KeyRange(condition=wrong))
    place.source.catalog().try_rows(table, KeyRange(condition="v = 1"))  # the connection is none the worse for it
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    with pytest.raises(ConditionRefused):
        reader.end_key(table, wrong)
    with pytest.raises(ConditionRefused):
        rows(reader, table, KeyRange(condition=wrong))
    assert rows(reader, table, KeyRange(condition="v = 1")) == [{"id": 1, "v": 1}]
    reader.close()


def test_what_is_gone_cannot_be_asked_about(place: Place) -> None:
    with pytest.raises(TableDisappeared):
        place.source.catalog().try_rows(place.table("gone"), KeyRange(condition="1 = 1"))


def test_a_table_without_key_is_read_as_of_the_moment_before_its_mark(place: Place) -> None:
    place.keyless("t")
    place.run("INSERT INTO @.t VALUES (1), (1), (NULL)")
    start = place.follow("t")
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    chunk = reader.read_table(place.table("t"), "opened")
    first = next(chunk.batches)
    place.run("INSERT INTO @.t VALUES (2)")
    read = [row["v"] for batch in (first, *chunk.batches) for row in batch.to_pylist()]
    reader.close()
    assert Counter(read) == Counter([1, 1, None])
    messages = place.read(start)
    (at,) = (at for at, message in enumerate(messages) if isinstance(message, Watermark) and message.token == "opened")
    assert changes(messages[at:], "v") == [("INSERT", 2)]


def test_log_and_snapshot_give_equal_values_and_types(place: Place) -> None:
    place.run(
        "CREATE TABLE @.t (id bigint PRIMARY KEY, s smallint, n numeric(20, 6), f double precision, c char(5), v"
        " varchar(50), x text, d date, b boolean)",
    )
    start = place.follow("t")
    place.run(
        "INSERT INTO @.t VALUES (1, -32768, -99999999999999.999999, 1e-300, 'ab', 'Ünï', 'long', '2024-02-29', TRUE),"
        " (2, 32767, 0.000001, -0.1, '', '', '', '0001-01-01', FALSE), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
        " NULL)"
    )
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    read = rows(reader, place.table("t"))
    reader.close()
    names = list(read[0])
    logged = [dict(zip(names, row[1:], strict=True)) for row in changes(place.read(start), *names)]
    assert logged == sorted(read, key=lambda row: row[names[0]])
