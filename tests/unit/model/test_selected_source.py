"""A selected source returns no unmasked value, regardless of what its log and its tables do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from replicator.errors import SelectionDoesNotFit, ValueDoesNotFit
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    LogMessage,
    Operation,
    SchemaChange,
    TableFailed,
    UndecodableRow,
    UndecodableRows,
)
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask
from replicator.model.row_filter import parse_filter
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.model.types import DataType
from replicator.selection.masking import masked_schema
from replicator.selection.source import SelectedSource
from replicator.selection.taken import TakenTables
from replicator.sources.base import Chunk, KeyRange
from replicator.sources.mysql.offset import BinlogOffset

TABLE, OTHER = TableId("shop", "people"), TableId("shop", "persons")
SECRET = "ada@example.com"
START = BinlogOffset("log.1", 4)
SET = TableSet(frozenset({TABLE, OTHER}), masks={TABLE: {"mail": Mask.from_dict("hash")}}, salt=b"salt")


def schema(table: TableId = TABLE, column: str = "mail") -> TableSchema:
    columns = (
        Column("id", DataType.parse("int"), False, "int"),
        Column(column, DataType.parse("string"), True, "text"),
    )
    return TableSchema(table, columns, ("id",))


def batch(of: TableSchema, ordinal: int = 0) -> ChangeBatch:
    row: dict[str, Any] = {"_sequence_num": ordinal, "_operation": "UPDATE", "_txn_id": "1", "_offset": "x"}
    row |= {"id": 1, "_before_id": 1, of.names[1]: SECRET, f"_before_{of.names[1]}": SECRET}
    return ChangeBatch(of.table, of, pa.RecordBatch.from_pylist([row], schema=of.change_arrow))


class Reader:
    """A log reader that returns `messages`, and a snapshot reader whose chunk fails after one row."""

    def __init__(self, *messages: LogMessage) -> None:
        self.messages, self.schemas, self.told = messages, {}, []

    def read(
        self, start: BinlogOffset, tables: TableSet, schemas: Mapping[TableId, TableSchema]
    ) -> Iterator[LogMessage]:
        self.schemas = dict(schemas)
        yield from self.messages

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        self.told.append(shown)
        return replace(known, identity=f"{known.identity}+")

    def read_chunk(self, table: TableId, bounds: KeyRange) -> Chunk:
        def rows() -> Iterator[pa.RecordBatch]:
            yield pa.RecordBatch.from_pylist([{"id": 1, "mail": SECRET}], schema=schema().row_arrow)
            raise ValueDoesNotFit(f"{SECRET!r} is no date.")

        return Chunk(schema(), rows())


class Plain:
    """A source of such readers."""

    tables: TableSet | None = SET

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def names(self) -> NameRule:
        return EXACT_NAMES

    def log_reader(self, *_: Any) -> Reader:
        return self.reader

    def snapshot_reader(self, *_: Any) -> Reader:
        return self.reader


def told(*messages: LogMessage, known: TableSchema | None = None) -> list[LogMessage]:
    reader = SelectedSource(Plain(Reader(*messages))).log_reader("r", None)
    return list(reader.read(START, SET, {known.table: known} if known else {}))


def test_changes_and_their_before_images_are_masked() -> None:
    (found,) = told(batch(schema()))
    assert isinstance(found, ChangeBatch)
    assert SECRET not in str(found.data.to_pylist())
    assert found.schema == masked_schema(schema(), SET.masks[TABLE])
    assert found.data.schema == found.schema.change_arrow


def test_the_source_is_told_of_the_schemas_that_it_knows_itself() -> None:
    inner = Reader()
    reader = SelectedSource(Plain(inner)).log_reader("r", None)
    masked = masked_schema(schema(), SET.masks[TABLE])
    assert list(reader.read(START, SET, {TABLE: masked})) == []
    assert inner.schemas == {TABLE: schema()}
    learned = reader.learned(masked, masked)
    assert learned == masked
    assert learned.identity == f"{masked.identity}+"
    assert inner.told == [schema()]
    assert reader.learned(schema(), masked) is None, "rows that were read without the mask"
    assert inner.told == [schema()]


@pytest.mark.parametrize("gone", [(), ({"mail": "post"},)])
def test_a_masked_column_that_is_renamed_or_dropped_stops_the_table(gone: tuple[Mapping[str, str], ...]) -> None:
    after = schema(column="post")
    change = SchemaChange(0, Ddl.ALTER_TABLE, TABLE, START, None, after, renamed_columns=dict(*gone))
    failed, *rest = told(change, batch(after, 1), Commit(START, None))
    assert isinstance(failed, TableFailed)
    assert isinstance(failed.error, SelectionDoesNotFit)
    assert [type(one) for one in rest] == [Commit], "nothing more of the table"


def test_rows_under_another_definition_stop_it_too() -> None:
    failed, *rest = told(batch(schema(column="post")), batch(schema(column="post")))
    assert isinstance(failed, TableFailed)
    assert rest == []


def test_masks_go_with_a_renamed_table_and_stay_for_what_takes_its_name() -> None:
    move = SchemaChange(0, Ddl.RENAME_TABLE, TABLE, START, None, None, new_table=OTHER)
    _, moved, new = told(move, batch(schema(OTHER), 1), batch(schema(), 2))
    for found in (moved, new):
        assert isinstance(found, ChangeBatch)
        assert SECRET not in str(found.data.to_pylist())


def test_a_table_that_is_made_anew_is_read_again() -> None:
    bad = SchemaChange(0, Ddl.ALTER_TABLE, TABLE, START, None, schema(column="post"))
    made = SchemaChange(2, Ddl.CREATE_TABLE, TABLE, START, None, schema())
    found = told(bad, batch(schema(column="post"), 1), made, batch(schema(), 3))
    assert [type(one) for one in found] == [TableFailed, SchemaChange, ChangeBatch]


def test_a_table_that_fits_no_more_under_its_new_name_fails_there() -> None:
    move = SchemaChange(1, Ddl.RENAME_TABLE, TABLE, START, None, schema(OTHER, "post"), new_table=OTHER)
    renamed, failed, *rest = told(move, batch(schema(OTHER, "post"), 2))
    assert isinstance(renamed, SchemaChange)
    assert (renamed.new_table, renamed.schema, rest) == (OTHER, None, [])
    assert isinstance(failed, TableFailed)
    assert failed.table == OTHER


@pytest.mark.parametrize("column", ["mail", "post"])
def test_a_failed_table_that_is_renamed_is_a_new_one_and_still_masked(column: str) -> None:
    """Whether it fits there is for its definition under that name to say."""
    bad = SchemaChange(0, Ddl.ALTER_TABLE, TABLE, START, None, schema(column="post"))
    move = SchemaChange(1, Ddl.RENAME_TABLE, TABLE, START, None, schema(OTHER, column), new_table=OTHER)
    failed, moved, *rest = told(bad, move, batch(schema(OTHER, column), 2))
    assert isinstance(failed, TableFailed)
    assert failed.table == TABLE
    if column == "post":
        assert isinstance(moved, SchemaChange)
        assert (moved.new_table, moved.schema) == (OTHER, None)
        assert [one.table for one in rest if isinstance(one, TableFailed)] == [OTHER]
        assert len(rest) == 1
    else:
        assert isinstance(moved, SchemaChange)
        assert (moved.operation, moved.table, moved.new_table) == (Ddl.RENAME_TABLE, TABLE, OTHER)
        assert moved.schema == masked_schema(schema(OTHER), SET.masks[TABLE])
        assert SECRET not in str(rest)


def test_a_message_of_a_kind_that_nobody_masks_stops_the_table() -> None:
    class DeadLetter(NamedTuple):
        table: TableId
        data: bytes

    seen: Any = (DeadLetter(TABLE, SECRET.encode()), DeadLetter(TABLE, b""), DeadLetter(TableId("shop", "open"), b"x"))
    failed, other = told(*seen)
    assert isinstance(failed, TableFailed)
    assert "DeadLetter" in failed.error.message
    assert other == seen[2]


def test_a_dead_letter_row_keeps_neither_its_bytes_nor_its_value() -> None:
    error = ValueDoesNotFit(f"{SECRET!r} is no date.", column="mail")
    row = UndecodableRow(0, Operation.INSERT, None, "1", "x", error, SECRET.encode(), 15, ({"mail": SECRET},))
    (found,) = told(UndecodableRows(TABLE, (row,), START))
    assert isinstance(found, UndecodableRows)
    assert (found.rows[0].data, found.rows[0].size, found.rows[0].error.column) == (b"", 15, "mail")
    assert SECRET not in repr(found) + found.rows[0].error.message


def test_no_failure_tells_a_value_of_a_masked_table() -> None:
    (found,) = told(TableFailed(TABLE, ValueDoesNotFit(f"{SECRET!r} is no date.", remedy="Mend it."), START))
    assert isinstance(found, TableFailed)
    assert SECRET not in found.error.message
    assert found.error.remedy == "Mend it."


def test_chunks_are_masked_and_their_failures_tell_no_value() -> None:
    chunk = SelectedSource(Plain(Reader())).snapshot_reader("r", None).read_chunk(TABLE, KeyRange())
    assert chunk.schema == masked_schema(schema(), SET.masks[TABLE])
    assert SECRET not in str(next(chunk.batches).to_pylist())
    with pytest.raises(ValueDoesNotFit) as raised:
        next(chunk.batches)
    assert SECRET not in raised.value.message


def test_the_name_of_a_failed_table_is_free_for_another_after_a_drop() -> None:
    bad = SchemaChange(0, Ddl.ALTER_TABLE, TABLE, START, None, schema(column="post"))
    gone = SchemaChange(1, Ddl.DROP_TABLE, TABLE, START, None, None)
    move = SchemaChange(2, Ddl.RENAME_TABLE, OTHER, START, None, schema(), new_table=TABLE)
    failed, dropped, moved, rows = told(bad, gone, move, batch(schema(), 3))
    assert isinstance(failed, TableFailed)
    assert dropped == gone
    assert isinstance(moved, SchemaChange)
    assert moved.schema == masked_schema(schema(), SET.masks[TABLE])
    assert isinstance(rows, ChangeBatch)
    assert SECRET not in str(rows.data.to_pylist())


def test_what_protects_either_name_protects_the_table_that_is_renamed_and_its_copy_is_made_again() -> None:
    hashed, nothing = Mask.from_dict("hash"), Mask.from_dict("null")
    masks = {TABLE: {"mail": hashed}, OTHER: {"mail": nothing, "id": hashed}}
    filters = {TABLE: parse_filter("id > 0"), OTHER: parse_filter("id < 9")}
    both = replace(SET, masks=masks, row_filters=filters)
    move = SchemaChange(0, Ddl.RENAME_TABLE, TABLE, START, None, schema(OTHER), new_table=OTHER)
    reader = SelectedSource(Plain(Reader(move, batch(schema(OTHER), 1)))).log_reader("r", None)
    moved, *rows = reader.read(START, both, {})
    assert isinstance(moved, SchemaChange)
    assert moved.reload
    assert moved.schema == masked_schema(schema(OTHER), masks[OTHER])
    taken = TakenTables(both)
    assert taken.carry(TABLE, OTHER)
    found = taken.get(OTHER)
    assert found is not None
    assert str(found.row_filter) == "id < 9 AND id > 0"
    assert found.masks == masks[OTHER]
    assert not taken.carry(OTHER, OTHER)
    assert SECRET not in str([row.data.to_pylist() for row in rows if isinstance(row, ChangeBatch)])


def test_a_table_that_is_made_again_under_another_name_is_masked_as_before() -> None:
    made = SchemaChange(0, Ddl.CREATE_TABLE, OTHER, START, None, schema(OTHER), reload=True, was=TABLE)
    new, rows = told(made, batch(schema(OTHER), 1))
    assert isinstance(new, SchemaChange)
    assert new.schema == masked_schema(schema(OTHER), SET.masks[TABLE])
    assert isinstance(rows, ChangeBatch)
    assert SECRET not in str(rows.data.to_pylist())


def test_a_table_that_is_made_again_and_fits_no_more_is_told_with_its_old_name_before_it_fails() -> None:
    """What protects it is stored with that name."""
    made = SchemaChange(0, Ddl.CREATE_TABLE, OTHER, START, None, schema(OTHER, "post"), reload=True, was=TABLE)
    new, failed, *rest = told(made, batch(schema(OTHER, "post"), 1))
    assert isinstance(new, SchemaChange)
    assert (new.moved, new.schema, new.reload, rest) == ((TABLE, OTHER), None, False, [])
    assert isinstance(failed, TableFailed)
    assert failed.table == OTHER
