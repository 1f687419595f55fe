"""The mapping of MySQL and MariaDB types, and values of the text protocol."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from replicator.errors import UnsupportedCharset, UnsupportedType, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.mysql.catalog.catalog import read_labels
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.snapshot.text_values import RowConverter
from replicator.sources.mysql.types import ColumnDefinition, column_of, data_type_of, type_document, type_table

TABLE = TableId("shop", "orders")


def definition(data_type: str, **more: object) -> ColumnDefinition:
    made = ColumnDefinition("c", data_type, str(more.pop("column_type", data_type)))
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def convert(
    made: ColumnDefinition, values: list[bytes | None], zero_dates: str = "null", *, key: bool = False
) -> pa.Array:
    column = column_of(made, TABLE, zero_dates=zero_dates, key=key)
    schema = TableSchema(TABLE, (column,), ("c",) if key else ())
    description = TableDescription(schema, (made,), None, "InnoDB")
    return RowConverter(description, zero_dates).batch([pa.array(values, pa.binary())]).column(0)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (definition("tinyint", unsigned=True), "int"),
        (definition("mediumint", unsigned=True), "int"),
        (definition("int"), "int"),
        (definition("int", unsigned=True), "bigint"),
        (definition("bigint"), "bigint"),
        (definition("bigint", unsigned=True), "decimal(20,0)"),
        (definition("decimal", precision=38, scale=38), "decimal(38,38)"),
        (definition("decimal", precision=39, scale=0), "string"),
        (definition("float"), "float"),
        (definition("double"), "double"),
        (definition("bit", precision=1), "boolean"),
        (definition("bit", precision=2), "bigint"),
        (definition("bit", precision=64), "decimal(20,0)"),
        (definition("varchar", charset="latin1"), "string"),
        (definition("binary", length=3), "binary"),
        (definition("enum", charset="utf8mb4"), "string"),
        (definition("year", column_type="year(4)"), "int"),
        (definition("date"), "date"),
        (definition("datetime", fsp=6), "timestamp_ntz"),
        (definition("timestamp"), "timestamp"),
        (definition("time"), "string"),
        (definition("multipolygon"), "binary"),
        (definition("uuid"), "string"),
    ],
)
def test_a_source_type_has_exactly_one_type(made: ColumnDefinition, expected: str) -> None:
    assert str(data_type_of(made, TABLE)) == expected


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedType, match=r"c of shop\.orders has the type xmltype"):
        data_type_of(definition("xmltype"), TABLE)


def test_a_two_digit_year_is_refused() -> None:
    with pytest.raises(UnsupportedType):
        data_type_of(definition("year", column_type="year(2)"), TABLE)


def test_a_charset_without_an_exact_decoder_is_refused() -> None:
    with pytest.raises(UnsupportedCharset, match="klingon"):
        data_type_of(definition("varchar", charset="klingon"), TABLE)


def test_more_than_38_digits_come_with_a_warning() -> None:
    column = column_of(definition("decimal", precision=65, scale=30, column_type="decimal(65,30)"), TABLE)
    assert column.warning == "decimal(65,30) has more than 38 digits: it becomes text."


def test_a_not_null_date_is_nullable_where_zero_dates_become_null_but_not_in_a_key() -> None:
    made = definition("date", nullable=False)
    assert column_of(made, TABLE).nullable
    assert not column_of(made, TABLE, key=True).nullable
    assert not column_of(made, TABLE, zero_dates="fail").nullable
    assert str(column_of(made, TABLE, zero_dates="text").type) == "string"


def test_numbers_arrive_exactly() -> None:
    assert convert(definition("bigint", unsigned=True), [b"18446744073709551615", None]).to_pylist() == [
        Decimal(18446744073709551615),
        None,
    ]
    assert convert(definition("int"), [b"-2147483648", b"0000000042"]).to_pylist() == [-2147483648, 42]
    assert convert(definition("decimal", precision=6, scale=2), [b"-0.01", b"0012.50"]).to_pylist() == [
        Decimal("-0.01"),
        Decimal("12.50"),
    ]
    assert convert(definition("double"), [b"1.7976931348623157e308", b"5e-324"]).to_pylist() == [
        1.7976931348623157e308,
        5e-324,
    ]
    assert convert(definition("bit", precision=1), [b"0", b"1", None]).to_pylist() == [False, True, None]


def test_times_arrive_to_the_microsecond() -> None:
    assert convert(definition("datetime", fsp=3), [b"9999-12-31 23:59:59.999"]).to_pylist() == [
        datetime(9999, 12, 31, 23, 59, 59, 999000)  # noqa: DTZ001 - without zone is the point
    ]
    assert convert(definition("timestamp", fsp=6), [b"1970-01-01 00:00:01.000001"]).to_pylist() == [
        datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)
    ]


@pytest.mark.parametrize("value", [b"0000-00-00", b"2020-00-10", b"2020-10-00", b"0000-01-01", b"2021-02-29"])
def test_a_date_that_does_not_exist_follows_the_policy(value: bytes) -> None:
    values = [b"2020-02-29", value, None, b"0001-01-01"]
    kept = [date(2020, 2, 29), None, None, date(1, 1, 1)]
    assert convert(definition("date"), values).to_pylist() == kept
    assert convert(definition("date"), values, "text").to_pylist() == ["2020-02-29", value.decode(), None, "0001-01-01"]
    with pytest.raises(ValueDoesNotFit, match=rf"c of shop\.orders: '{value.decode()}'"):
        convert(definition("date"), values, "fail")


def test_a_zero_date_in_a_key_is_never_made_null() -> None:
    with pytest.raises(ValueDoesNotFit):
        convert(definition("datetime", nullable=False), [b"0000-00-00 00:00:00"], key=True)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(ValueDoesNotFit):
        convert(definition("varchar", charset="utf8mb4"), [b"\xff"])


def test_labels_are_read_with_quotes_commas_and_backslashes() -> None:
    assert read_labels("enum('a','b''c','d,e','','f\\\\g')") == ("a", "b'c", "d,e", "", "f\\g")


def test_the_document_has_a_row_for_every_type() -> None:
    document = type_document()
    assert all(f"| {row.source} | `{row.target}` |" in document for row in type_table())
