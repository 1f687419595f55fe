"""Avro schemas of a table's messages, and their single-object encoding: two bytes C3 01, the schema's fingerprint
(CRC-64-AVRO), the value.

Decimals, days and times have Avro's logical types.  A fingerprint leaves logical types out; so a record's name has a
digest of the columns' types in it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType, Kind
from replicator.targets.identifiers import digest
from replicator.targets.kafka.naming import avro_name, avro_namespace

MARK = b"\xc3\x01"
NULL: Any = "null"
OWN = ("__op", "__sequence", "__ts", "__deleted", "__unchanged")
_PLAIN: Mapping[Kind, str] = {
    Kind.BOOLEAN: "boolean",
    Kind.INT: "int",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.STRING: "string",
    Kind.BINARY: "bytes",
}
_LOGICAL: Mapping[Kind, tuple[str, str]] = {
    Kind.DATE: ("int", "date"),
    Kind.TIMESTAMP: ("long", "timestamp-micros"),
    Kind.TIMESTAMP_NTZ: ("long", "local-timestamp-micros"),
}
_NUMBERS = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIMESTAMP_NTZ: pa.int64()}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "tidemark",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
        {"name": "snapshot", "type": "string"},
        {"name": "db", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "schema_version", "type": "int"},
        {"name": "sequence", "type": "long"},
        {"name": "txId", "type": ["null", "string"]},
        {"name": "offset", "type": ["null", "string"]},
        {"name": "unchanged", "type": {"type": "array", "items": "string"}},
    ],
}


@dataclass(frozen=True)
class AvroSchema:
    """`raw` is what a reader needs; `header` stands before each value."""

    raw: dict[str, Any]
    parsed: Any
    fingerprint: str

    @property
    def header(self) -> bytes:
        return MARK + bytes.fromhex(self.fingerprint)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> AvroSchema:
        """With its fingerprint in hexadecimal, in the order in which it is written."""
        return cls(raw, parse_schema(raw), fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO"))

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """Single-object encoding."""
        out = io.BytesIO()
        out.write(self.header)
        fastavro.schemaless_writer(out, self.parsed, value)
        return out.getvalue()


def avro_type(kind: DataType) -> str | dict[str, Any]:
    """Of a column's values."""
    if kind.kind is Kind.DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.kind in _LOGICAL:
        physical, logical = _LOGICAL[kind.kind]
        return {"type": physical, "logicalType": logical}
    return _PLAIN[kind.kind]


def fields(columns: list[Column], *, key: bool = False) -> list[dict[str, Any]]:
    """One per column; `column` is its own name where Avro has another."""
    taken: set[str] = set(OWN)
    found = []
    for column in columns:
        name = avro_name(column.name, taken)
        kind: Any = avro_type(column.type)
        field: dict[str, Any] = (
            {"name": name, "type": kind} if key else {"name": name, "type": ["null", kind], "default": None}
        )
        found.append(field if name == column.name else field | {"column": column.name})
    return found


def key_schema(schema: TableSchema, topic: str) -> AvroSchema | None:
    """None for a table without key."""
    if not schema.key:
        return None
    columns = [schema.column(name) for name in schema.key]
    return AvroSchema.of(_record("Key", topic, columns, fields(columns, key=True)))


def flat_schema(schema: TableSchema, topic: str) -> AvroSchema:
    """The row's columns, and what happened to it."""
    own: list[dict[str, Any]] = [
        {"name": "__op", "type": "string"},
        {"name": "__sequence", "type": "long"},
        {"name": "__ts", "type": ["null", "long"]},
        {"name": "__deleted", "type": "boolean"},
        {"name": "__unchanged", "type": {"type": "array", "items": "string"}},
    ]
    columns = list(schema.columns)
    return AvroSchema.of(_record("Value", topic, columns, [*fields(columns), *own]))


def envelope_schema(schema: TableSchema, topic: str) -> AvroSchema:
    """Debezium's envelope; before and after are records `Row`."""
    columns = list(schema.columns)
    row = _record("Row", topic, columns, fields(columns))
    name = f"{row['namespace']}.Row"
    members: list[dict[str, Any]] = [
        {"name": "before", "type": [NULL, row], "default": None},
        {"name": "after", "type": [NULL, name], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": "long"},
    ]
    return AvroSchema.of({**row, "name": "Envelope", "fields": members})


def _record(name: str, topic: str, columns: list[Column], members: list[dict[str, Any]]) -> dict[str, Any]:
    types = digest(" ".join(f"{c.name!r} {c.type}" for c in columns))
    return {"type": "record", "name": name, "namespace": f"{avro_namespace(topic)}.v{types}", "fields": members}


def rows(batch: pa.RecordBatch, columns: list[Column], names: list[str]) -> list[dict[str, Any]]:
    """As the writer takes them: days and times as numbers, which have no year 9999; `names` are the fields'."""
    lists = []
    for column in columns:
        values = batch.column(column.name)
        as_number = _NUMBERS.get(column.type.kind)
        lists.append((values if as_number is None else values.cast(as_number)).to_pylist())
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]
