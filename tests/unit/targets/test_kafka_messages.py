"""What a batch of changes becomes as messages: without a broker."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from replicator.errors import TableError, ValuesLost
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, Column, TableSchema
from replicator.model.types import BINARY, DATE, DOUBLE, FLOAT, INT, STRING, TIMESTAMP, TIMESTAMP_NTZ, DataType, decimal
from replicator.targets.base import TargetTable
from replicator.targets.kafka import avro
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.events import events
from replicator.targets.kafka.messages import Encoder, MessageContext, encoder, schema_record
from replicator.targets.kafka.naming import avro_name, topic_of

MOMENT = datetime(2024, 2, 29, 12, 30, 0, 123456, tzinfo=UTC)
VALUES: dict[str, tuple[DataType, list[Any], list[Any]]] = {
    "id": (INT, [1, 2, 3, 4], [1, 2, 3, 4]),
    "d": (decimal(30, 20), [Decimal("0.00000000000000000001"), None, Decimal("-5.00000000000000000000"),
            Decimal("1.50000000000000000000")],
          ["0.00000000000000000001", None, "-5.00000000000000000000", "1.50000000000000000000"]),
    'odd "name"': (STRING, ['a"\\\n\x00', None, "ü😀", ""], ['a"\\\n\x00', None, "ü😀", ""]),
    "b": (BINARY, [b"\x00\xff", None, b"", b"x"], ["AP8=", None, "", "eA=="]),
    "f": (DOUBLE, [float("nan"), float("inf"), float("-inf"), 0.1], ["NaN", "Infinity", "-Infinity", 0.1]),
    "g": (FLOAT, [1.5, None, -0.0, 0.25], [1.5, None, 0, 0.25]),
    "day": (DATE, [date(2024, 2, 29), None, date(1, 1, 1), date(9999, 12, 31)],
        ["2024-02-29", None, "0001-01-01", "9999-12-31"]),
    "wall": (TIMESTAMP_NTZ, [MOMENT.replace(tzinfo=None)] * 4, ["2024-02-29T12:30:00.123456"] * 4),
    "at": (TIMESTAMP, [MOMENT] * 4, ["2024-02-29T12:30:00.123456Z"] * 4),
}  # fmt: skip
SCHEMA = TableSchema(
    TableId("db", "t"),
    tuple(Column(name, kind, nullable=True, source_type="") for name, (kind, *_) in VALUES.items()),
    ("id",),
)


def batch(
    schema: TableSchema, operations: list[str], rows: dict[str, list[Any]], before: dict[str, list[Any]]
) -> pa.RecordBatch:
    count = len(operations)
    told = {
        "_sequence_num": list(range(10, 10 + count)),
        "_operation": operations,
        "_commit_ts": [MOMENT] * count,
        "_txn_id": ["x"] * count,
        "_offset": ['{"a": 1}'] * count,
    }
    told |= {name: rows.get(name, [None] * count) for name in schema.names}
    told |= {BEFORE + name: before.get(name, [None] * count) for name in schema.names}
    if schema.partial:
        told["_unchanged"] = rows["_unchanged"]
    return pa.RecordBatch.from_pydict(told, schema=schema.change_arrow)


def encoding(format_: str, envelope: str, schema: TableSchema = SCHEMA) -> tuple[Encoder, Any]:
    config = KafkaConfig("k", format=format_, envelope=envelope)
    subject = MessageContext("mysql", "r", "p.db.t", schema, 1)
    return encoder(config, subject), schema_record(subject, config, {}, 0)


def decoded(value: Any, told: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return json.loads(value)
    assert value[:2] == b"\xc3\x01"
    raw = told["avro"][value[2:10].hex()]
    return fastavro.schemaless_reader(io.BytesIO(value[10:]), fastavro.parse_schema(raw), None)


@pytest.mark.parametrize("envelope", ["debezium", "flat"])
def test_json_has_every_value_exactly(envelope: str) -> None:
    rows = {name: values for name, (_, values, _) in VALUES.items()}
    found, told = encoding("json", envelope)
    made = list(found.messages(events(batch(SCHEMA, ["INSERT", "READ", "INSERT", "INSERT"], rows, {}), SCHEMA), 5))
    for place, (key, value, op) in enumerate(made):
        row = decoded(value, told)
        row = row["after"] if envelope == "debezium" else row
        assert {name: row[name] for name in VALUES} == {name: wanted[place] for name, (*_, wanted) in VALUES.items()}
        assert (json.loads(key or ""), op) == ({"id": place + 1}, "r" if place == 1 else "c")


@pytest.mark.parametrize("envelope", ["debezium", "flat"])
def test_avro_has_every_value_exactly(envelope: str) -> None:
    rows = {name: values for name, (_, values, _) in VALUES.items()}
    found, told = encoding("avro", envelope)
    made = list(found.messages(events(batch(SCHEMA, ["INSERT"] * 4, rows, {}), SCHEMA), 5))
    fields = {field.get("column", field["name"]): field["name"] for field in avro.fields(list(SCHEMA.columns))}
    for place, (key, value, _) in enumerate(made):
        row = decoded(value, told)
        row = row["after"] if envelope == "debezium" else row
        assert repr({name: row[fields[name]] for name in VALUES}) == repr(
            {name: values[place] for name, (_, values, _) in VALUES.items()}
        )
        assert decoded(key, told) == {"id": place + 1}


def test_the_envelope_is_debeziums() -> None:
    found, told = encoding("json", "debezium")
    rows, before = {"id": [1, 7, None]}, {"id": [1, 6, 3], "f": [0.5, 0.5, 0.5]}
    made = list(found.messages(events(batch(SCHEMA, ["UPDATE", "UPDATE", "DELETE"], rows, before), SCHEMA), 5))
    assert [(json.loads(key or "")["id"], op) for key, _, op in made] == [(1, "u"), (6, "d"), (7, "c"), (3, "d")]
    values = [decoded(value, told) for _, value, _ in made]
    assert [(one["before"] is None, one["after"] is None) for one in values] == [
        (False, False), (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert values[0]["before"]["f"] == 0.5
    assert values[0]["source"] == {
        "connector": "mysql", "name": "r", "ts_ms": 1709209800123, "snapshot": "false", "db": "db", "table": "t",
        "schema_version": 1, "sequence": 10, "txId": "x", "offset": '{"a": 1}',
    }  # fmt: skip
    assert (values[1]["source"]["sequence"], values[2]["source"]["sequence"]) == (11, 11)


@pytest.mark.parametrize(
    ("format_", "envelope"), [("json", "debezium"), ("json", "flat"), ("avro", "debezium"), ("avro", "flat")]
)
def test_left_out_values_are_named_and_truncations_have_a_place(format_: str, envelope: str) -> None:
    columns = (Column("id", INT, nullable=False, source_type=""), Column("big", STRING, nullable=True, source_type=""))
    schema = TableSchema(TableId("db", "t"), columns, ("id",), partial=True)
    found, told = encoding(format_, envelope, schema)
    changes = batch(schema, ["UPDATE", "INSERT"], {"id": [1, 2], "_unchanged": [[1], None]}, {"id": [1, None]})
    about = [decoded(value, told) for _, value, _ in found.messages(events(changes, schema), 5)]
    about = [one["source"] if envelope == "debezium" else one for one in about]
    assert [one["unchanged" if envelope == "debezium" else "__unchanged"] for one in about] == [["big"], []]
    void = decoded(found.truncated(99, 5), told)
    assert (void.get("op") or void["__op"]) == "t"
    assert (void["source"]["sequence"] if envelope == "debezium" else void["__sequence"]) == 99
    moved = batch(schema, ["UPDATE"], {"id": [1], "_unchanged": [[1]]}, {"id": [2]})
    with pytest.raises(ValuesLost):
        events(moved, schema)


def test_names_that_kafka_or_avro_do_not_allow_stay_apart() -> None:
    names = ["a b", "a_b", "a/b", "ü", "x" * 300, "x" * 299]
    assert len({topic_of(TargetTable("n", name)) for name in names}) == len(names)
    assert topic_of(TargetTable("n", "a_b")) == "n.a_b"
    taken: set[str] = set()
    assert [avro_name(name, taken) for name in ("1", "a-b", "a_b")] == ["_1", "a_b", "a_b_2"]


def test_fingerprints_are_the_specifications_and_tell_logical_types_apart() -> None:
    assert avro.AvroSchema.of({"type": "record", "name": "a", "fields": []}).header[:2] == avro.MARK
    one, other = (
        TableSchema(TableId("db", "t"), (Column("d", decimal(10, scale), nullable=True, source_type=""),))
        for scale in (2, 4)
    )
    assert avro.flat_schema(one, "t").fingerprint != avro.flat_schema(other, "t").fingerprint
    assert fastavro.schema.fingerprint('"null"', "CRC-64-AVRO") == (0x63DD24E7CC258F8A).to_bytes(8, "little").hex()


def test_a_column_called_as_a_flat_messages_own_field_stops_the_table() -> None:
    schema = TableSchema(TableId("db", "t"), (Column("__op", INT, nullable=True, source_type=""),))
    encoding("json", "debezium", schema)
    with pytest.raises(TableError, match="__op"):
        encoding("json", "flat", schema)
