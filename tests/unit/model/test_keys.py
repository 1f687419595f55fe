"""Keys that people write: what is taken, how it is kept, and the sentence for what is none."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from replicator.errors import ConfigurationError, KeyChanged
from replicator.model import types
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType
from replicator.snapshot import keys as snapshot_keys
from replicator.snapshot.keys import parse_lines, parse_values, values_of
from replicator.sources import mysql, postgres


def schema(*columns: tuple[str, DataType, str]) -> TableSchema:
    made = tuple(Column(name, kind, nullable=False, source_type=text) for name, kind, text in columns)
    return TableSchema(TableId("shop", "t"), made, tuple(name for name, _, _ in columns))


ONE = schema(("id", types.INT, "int"))
TWO = schema(("region", types.STRING, "varchar(20)"), ("id", types.BIGINT, "bigint"))


def test_a_key_of_one_column_is_a_line_as_it_stands() -> None:
    assert parse_lines(" 1 \n\n 007\n[3]\n1", ONE) == [("1",), ("7",), ("3",)]
    named = schema(("name", types.STRING, "text"))
    assert parse_lines('a, b\n"quoted, ""too"""\n["[x]"]', named) == [("a, b",), ('quoted, "too"',), ("[x]",)]


def test_several_columns_are_csv_or_json() -> None:
    assert parse_lines('north,1\n"a,b", 2\n["ü", 3]', TWO) == [("north", "1"), ("a,b", "2"), ("ü", "3")]
    assert parse_values([["north", 1], ["x", "2"]], TWO) == [("north", "1"), ("x", "2")]


@pytest.mark.parametrize(
    ("kind", "source", "written", "kept", "value"),
    [
        (types.BOOLEAN, "bit(1)", "1", "true", True),
        (types.decimal(10, 2), "decimal(10,2)", "1.5", "1.50", Decimal("1.50")),
        (types.decimal(20, 0), "bigint unsigned", "18446744073709551615", "18446744073709551615", Decimal(2**64 - 1)),
        (types.BINARY, "binary(2)", "0xFF00", "ff00", b"\xff\x00"),
        (types.DATE, "date", "2026-02-28", "2026-02-28", date(2026, 2, 28)),
        (types.TIMESTAMP_NTZ, "datetime(6)", "2026-02-28T10:00:00.5", "2026-02-28 10:00:00.500000",
            datetime(2026, 2, 28, 10, 0, 0, 500000)),  # noqa: DTZ001
        (types.TIMESTAMP, "timestamptz", "2026-02-28 10:00+02:00", "2026-02-28 08:00:00",
            datetime(2026, 2, 28, 8, tzinfo=UTC)),
        (types.STRING, "uuid", "ABCDEF00-0000-0000-0000-000000000000", "abcdef00-0000-0000-0000-000000000000",
            "abcdef00-0000-0000-0000-000000000000"),
        (types.STRING, "character(5)", "ab", "ab   ", "ab   "),
    ],
)  # fmt: skip
def test_what_is_kept_is_read_back_as_the_value_in_rows(
    kind: DataType, source: str, written: str, kept: str, value: Any
) -> None:
    table = schema(("k", kind, source))
    assert parse_values([written], table, postgres.KIND.key_text) == [(kept,)]
    assert parse_values([kept], table, postgres.KIND.key_text) == [(kept,)]
    assert values_of([(kept,)], table) == [(value,)]


def test_texts_of_a_key_are_as_their_source_shows_them() -> None:
    uuid, padded = schema(("k", types.STRING, "uuid")), schema(("k", types.STRING, "character(3)"))
    assert parse_lines(" AB ", uuid, mysql.KIND.key_text) == [("ab",)]
    assert parse_lines("a", padded, mysql.KIND.key_text) == [("a",)]
    assert parse_lines("a", padded, postgres.KIND.key_text) == [("a  ",)]
    assert parse_lines("AB", uuid) == [("AB",)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "The list contains no keys."),
        ("1\nx", "Line 2: 'x' is not a valid value of id (int)."),
        ("99999999999", "Line 1: '99999999999' is not a valid value of id (int)."),
        ("[1, 2]", "Line 1: the key of shop.t is (id): 1 value, not 2."),
        ("[1", "Line 1: not a JSON array"),
        ("[null]", "Line 1: null is not a valid value of a key."),
        ('"1', "Line 1: not a line of CSV"),
    ],
)
def test_what_is_no_key_is_said_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_lines(text, ONE)
    assert raised.value.message.startswith(said)
    assert "id (int)" in raised.value.remedy


def test_what_has_no_exact_text_or_is_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="Use a condition instead"):
        parse_values([1.5], schema(("x", types.DOUBLE, "double")))
    monkeypatch.setattr(snapshot_keys, "MAX_KEYS", 2)
    with pytest.raises(ConfigurationError, match="The list contains 3 keys, more than 2"):
        parse_lines("1\n2\n3", ONE)


def test_keys_of_a_table_that_has_another_key_by_now_are_told() -> None:
    with pytest.raises(KeyChanged):
        values_of([("a", "1")], ONE)
    with pytest.raises(KeyChanged):
        values_of([("a",)], ONE)
