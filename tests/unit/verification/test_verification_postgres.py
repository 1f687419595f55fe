"""Canonical cells of Postgres values, without a server."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from replicator.verification.cells import show
from replicator.verification.postgres.reader import BATCH_CHARACTERS, BATCH_ROWS, following, literal
from replicator.verification.postgres.rules import CONVERT, PostgresColumn, left_out, precision_and_scale, rule
from replicator.verification.target import canonical


def modifier(precision: int, scale: int) -> int:
    """pg_attribute.atttypmod of numeric(precision, scale)."""
    return ((precision << 16) | (scale & 0x7FF)) + 4


@pytest.mark.parametrize(
    ("precision", "scale", "iceberg"),
    [
        (38, 38, "decimal(38, 38)"),
        (10, 0, "decimal(10, 0)"),
        (39, 0, "string"),
        (5, -2, "string"),
        (3, 5, "string"),
        (1000, 1000, "string"),
    ],
)
def test_a_numeric_is_a_decimal_where_every_value_fits(precision: int, scale: int, iceberg: str) -> None:
    found = rule(PostgresColumn("c", "numeric", "numeric", modifier=modifier(precision, scale)), "null")
    assert found is not None
    assert found.iceberg == iceberg
    assert precision_and_scale(-1) is None


def test_only_types_of_the_server_itself_have_rules_by_name() -> None:
    """A type named int4 in the user's schema is text."""
    found = rule(PostgresColumn("c", "mine.int4", ""), "null")
    assert found is not None
    assert found.iceberg == "string"
    assert rule(PostgresColumn("c", "anyarray", "anyarray", "p"), "null") is None


@pytest.mark.parametrize(
    ("convert", "text", "cell"),
    [
        ("", "é", "é".encode()),
        ("hex", "00ff", b"\0\xff"),
        ("hex", "", b""),
        ("unscaled", "-0.05", b"-5"),
        ("unscaled", "NaN", b"NaN"),
        ("float4", "80000000", struct.pack("<f", -0.0)),
        ("float4", "ff800000", struct.pack("<f", float("-inf"))),
        ("float8", "3fb999999999999a", struct.pack("<d", 0.1)),
        ("date", "2026-01-02", b"2026-01-02"),
        ("date", "infinity", None),
        ("date", "0044-03-15 BC", None),
        ("date", "10000-01-01", None),
        ("moment", "2026-01-02 03:04:05", b"2026-01-02 03:04:05.000000"),
        ("moment", "2026-01-02 03:04:05.1", b"2026-01-02 03:04:05.100000"),
        ("moment", "2026-01-02 03:04:05 BC", None),
        ("moment", "2026-01-02 03:04:05.1234 BC", None),
        ("moment", "12026-01-02 03:04:05", None),
        ("moment", "infinity", None),
        ("moment_utc", "2026-01-02 03:04:05.000001+00", b"2026-01-02 03:04:05.000001"),
        ("moment_utc", "2026-01-02 03:04:05+00 BC", None),
        ("moment_utc", "12026-01-02 03:04:05+00", None),
        ("moment_utc", "-infinity", None),
    ],
)
def test_cells(convert: str, text: str, cell: bytes | None) -> None:
    assert CONVERT[convert]([text, None]) == [cell, None]


@pytest.mark.parametrize("bits", ["7ff8000000000000", "fff8000000000000", "7ff0000000000001"])
def test_every_nan_is_the_same_on_both_sides(bits: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    usual = struct.pack("<d", float("nan"))
    assert CONVERT["float8"]([bits]) == [usual]
    assert canonical(pa.array([value, None, 1.0])) == [usual, None, struct.pack("<d", 1.0)]


@pytest.mark.parametrize(
    ("generated", "version", "absent"),
    [("", 130000, False), ("s", 179999, True), ("s", 180000, False), ("v", 180000, True)],
)
def test_generated_columns_are_left_out_where_the_log_has_none(generated: str, version: int, *, absent: bool) -> None:
    assert bool(left_out(PostgresColumn("g", "integer", "int4", generated=generated), version)) is absent


def test_a_key_in_sql_is_exact_and_of_the_columns_type() -> None:
    text, raw = PostgresColumn("c", "character(4)", "bpchar"), PostgresColumn("c", "bytea", "bytea")
    money = PostgresColumn("c", "numeric(5,2)", "numeric", modifier=modifier(5, 2))
    own = PostgresColumn("c", "public.citext", "")
    found = [
        literal(cell, column, how)
        for column, cell in ((text, b"a'\\ "), (raw, b"\0'"), (money, b"-5"), (own, b"x"), (own, None))
        if (how := rule(column, "null"))
    ]
    assert found == [
        "'a''\\ '::character(4)", "'\\x0027'::bytea", "'-0.05'::numeric(5,2)", "'x'::public.citext::text", "NULL"
    ]  # fmt: skip
    assert show(b"NaN", "decimal(5, 2)") == "NaN"


def test_wide_rows_are_asked_for_in_smaller_batches() -> None:
    assert following([("x", None)] * 100) == BATCH_ROWS
    assert following([("x" * 999_999,)] * 10) == BATCH_CHARACTERS // 1_000_000
    assert following([("x" * (BATCH_CHARACTERS + 1),)]) == 1
