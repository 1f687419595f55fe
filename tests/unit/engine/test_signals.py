"""Rows of the signalling table: Debezium's form, what is taken from the log, and sentences for what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.engine.capture.signals import Signals
from replicator.errors import ConfigurationError, UnsupportedType
from replicator.model.change import ChangeBatch, Ddl, SchemaChange, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import STRING
from replicator.snapshot.signals import Act, create_table, parse_signal
from replicator.sources.mysql.dialect import MYSQL
from replicator.sources.oracle.dialect import ORACLE
from replicator.state.journal import CapturePlan, Checkpoint, Signal

TABLE, ORDERS, ITEMS = TableId("shop", "signals"), TableId("shop", "orders"), TableId("shop", "items")
COLUMNS = tuple(Column(name, STRING, nullable=name == "data", source_type="text") for name in ("id", "type", "data"))
SCHEMA = TableSchema(TABLE, COLUMNS, ("id",))


def signal(act: str, data: Any = None) -> Signal:
    return Signal("1", act, data if isinstance(data, str) else "" if data is None else json.dumps(data))


def test_debeziums_form_is_understood() -> None:
    asked = parse_signal(
        signal(
            "execute-snapshot",
            {
                "data-collections": ["shop.orders", r"shop\.it.*"],
                "type": "INCREMENTAL",
                "additional-conditions": [{"data-collection": "shop.orders", "filter": "id > 5"}],
            },
        )
    )
    assert (asked.act, asked.wants(ORDERS), asked.wants(ITEMS), asked.wants(TABLE)) == (Act.EXECUTE, True, True, False)
    assert (asked.condition(ORDERS), asked.condition(ITEMS)) == ("id > 5", "")
    older = parse_signal(
        signal("execute-snapshot", {"data-collections": ["SHOP.ORDERS"], "additional-condition": "a = 1"})
    )
    assert (older.wants(ORDERS), older.condition(ORDERS)) == (True, "a = 1")
    keys = parse_signal(signal("execute-snapshot", {"data-collections": ["shop.orders"], "keys": [1, ["2"]]}))
    assert keys.keys == (1, ["2"])


@pytest.mark.parametrize("act", ["stop-snapshot", "pause-snapshot", "resume-snapshot"])
def test_what_is_under_way_is_named_or_all_of_it(act: str) -> None:
    assert parse_signal(signal(act)).wants(ORDERS)
    some = parse_signal(signal(act, {"data-collections": ["shop.items"], "type": "incremental"}))
    assert (some.act, some.wants(ITEMS), some.wants(ORDERS)) == (Act(act), True, False)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (signal("log", {"message": "x"}), "Unknown signal 'log'"),
        (signal("execute-snapshot", "{"), "is not valid JSON"),
        (signal("execute-snapshot", "[" * 100_000), "is not valid JSON"),
        (signal("execute-snapshot", [1]), "is not a JSON object"),
        (signal("execute-snapshot", {}), "data-collections must be a list"),
        (signal("execute-snapshot", {"data-collections": ["a.b"], "type": "blocking"}), "only incremental snapshots"),
        (signal("execute-snapshot", {"data-collections": ["a.b"], "keys": 5}), "keys must be"),
        (signal("execute-snapshot", {"data-collections": ["a.b"], "additional-conditions": [1]}), "list of objects"),
        (
            signal("execute-snapshot", {"data-collections": ["a.b"], "additional-conditions": [{"filter": "x"}]}),
            "must have data-collection and filter",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(wrong: Signal, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_signal(wrong)


class Told:
    """A catalog that has the table or not, and what was reported."""

    def __init__(self, schema: TableSchema | None) -> None:
        self.schema, self.lines = schema, list[str]()

    def describe(self, tables: list[TableId]) -> dict[TableId, TableSchema]:
        return {} if self.schema is None else dict.fromkeys(tables, self.schema)

    def log(self, level: Any, text: str, **detail: Any) -> None:
        del detail
        self.lines.append(f"{level.name}: {text}")


def made(*, selected: bool = False, schema: TableSchema | None = SCHEMA) -> tuple[Signals, JournalEntryBuilder, Told]:
    tables = frozenset({ORDERS, TABLE} if selected else {ORDERS})
    plan = CapturePlan(1, wanted=True, tables=TableSet(tables), tracked=(), checkpoint=None, signals=TABLE)
    assert TABLE in plan.followed
    told, entry = Told(schema), JournalEntryBuilder(Checkpoint({}, 0, "server"))
    stand: Any = told
    return Signals(plan, stand, entry, stand), entry, told


def batch(*rows: tuple[str, str], table: TableId = TABLE, schema: TableSchema = SCHEMA) -> ChangeBatch:
    found = [
        {"_sequence_num": n, "_operation": operation, "id": id_, "type": "stop-snapshot"}
        for n, (operation, id_) in enumerate(rows)
    ]
    return ChangeBatch(table, schema, pa.RecordBatch.from_pylist(found, schema=schema.change_arrow))


def test_rows_that_are_inserted_are_signals_and_nothing_else_is() -> None:
    signals, entry, told = made()
    assert signals.schemas() == {TABLE: SCHEMA}
    assert signals.takes(batch(("INSERT", "1"), ("DELETE", "1"), ("UPDATE", "2"), ("INSERT", "3")))
    assert entry.signals == [Signal("1", "stop-snapshot", ""), Signal("3", "stop-snapshot", "")]
    assert entry.next_sequence == 4
    assert entry.urgent()
    assert not signals.takes(batch(("INSERT", "1"), table=ORDERS))
    assert told.lines == ["INFO: Signal 1: stop-snapshot", "INFO: Signal 3: stop-snapshot"]


def test_a_table_that_is_selected_goes_on_to_the_target() -> None:
    signals, entry, _ = made(selected=True)
    assert signals.schemas() == {}
    assert not signals.takes(batch(("INSERT", "1")))
    assert len(entry.signals) == 1


def test_whatever_is_wrong_with_the_table_is_a_warning() -> None:
    place: Any = None
    signals, entry, told = made(schema=None)
    assert signals.schemas() == {}
    other = TableSchema(TABLE, COLUMNS[:2], ("id",))
    assert signals.takes(batch(("INSERT", "1"), schema=other))
    assert signals.takes(SchemaChange(5, Ddl.DROP_TABLE, TABLE, place, None))
    assert signals.takes(TableFailed(TABLE, UnsupportedType("odd"), place))
    assert (entry.signals, entry.next_sequence) == ([], 6)
    assert [line.partition(" cannot be read: ")[2] for line in told.lines] == [
        "it does not exist.",
        "The signalling table has no column data. Create it again with the CREATE TABLE shown in the settings.",
        "odd",
    ]


def test_the_statement_that_makes_the_table_is_quoted() -> None:
    assert create_table(TableId("A", "B"), ORACLE).endswith("data VARCHAR2(4000) NULL)")
    assert create_table(TableId("a", "b`c"), MYSQL).startswith("CREATE TABLE `a`.`b``c` (id VARCHAR(42) PRIMARY KEY")
