"""What a TABLE_MAP counts by type: character sets and sign bits.

Whether YEAR has a sign bit follows from the event itself, else from the server's version, else from the catalog.
"""

from __future__ import annotations

import pytest

from replicator.errors import UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import BIGINT, INT
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import TableMap, parse_table_map, signs_years
from replicator.sources.mysql.rows.table_map_completion import complete

TABLE = TableId("shop", "y3")
VISIBILITY = bytes((12, 1, 0xF0))


def body(types: list[int], signs: bytes, more: bytes = b"") -> bytes:
    """Columns c0, c1 … without NULLs, and the key c0."""
    names = b"".join(f"\2c{place}".encode() for place in range(len(types)))
    optional = bytes((1, len(signs))) + signs + bytes((4, len(names))) + names + b"\x08\1\0" + more
    head = b"\1\0\0\0\0\0\1\0\4shop\0\2y3\0"
    return head + bytes((len(types), *types, 0)) + bytes((len(types) + 7) // 8) + optional


LATIN1, BINARY = 8, 63


@pytest.mark.parametrize(
    ("charsets", "expected"),
    [
        (bytes((3, 3, BINARY, LATIN1, 33)), [BINARY, LATIN1, 33]),  # as MySQL 9 writes them
        (bytes((3, 2, LATIN1, 33)), [None, LATIN1, 33]),  # of a server that would not count VECTOR
        (bytes((2, 3, LATIN1, 0, BINARY)), [BINARY, LATIN1, LATIN1]),
        (bytes((2, 3, LATIN1, 1, 33)), [None, LATIN1, 33]),
        (bytes((2, 5, LATIN1, 0, BINARY, 2, 33)), [BINARY, LATIN1, 33]),
    ],
)
def test_character_sets_are_those_of_their_columns_beside_a_vector(charsets: bytes, expected: list[int | None]) -> None:
    head = b"\1\0\0\0\0\0\1\0\4shop\0\2y3\0"
    types, metadata = bytes((t.VECTOR, t.VARCHAR, t.VARCHAR)), bytes((4, 9, 0, 9, 0))
    found = parse_table_map(head + bytes((3,)) + types + bytes((5,)) + metadata + b"\0" + charsets)
    assert [column.charset for column in found.columns] == expected


def test_character_sets_of_more_or_fewer_columns_are_refused() -> None:
    head = b"\1\0\0\0\0\0\1\0\4shop\0\2y3\0\1" + bytes((t.VARCHAR, 2, 9, 0, 0))
    for charsets in (
        bytes((3, 2, 8, 8)),
        bytes((2, 3, 8, 1, 33)),
        bytes((2, 2, 8, 0)),
        bytes((2, 5, 8, 0, 33, 0, 8)),
        b"\2\0",
    ):
        with pytest.raises(IndexError):
            parse_table_map(head + charsets)


def signs(found: TableMap) -> list[bool | None]:
    return [column.unsigned for column in found.columns]


Y3 = [t.LONG, t.YEAR, t.LONG, t.LONG]  # id INT, y YEAR, u INT UNSIGNED, s INT
WITHOUT, WITH = [False, None, True, False], [False, None, False, False]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("8.0.12", False), ("8.0.20-log", False), ("5.7.44-log", False), ("8.0.23", True), ("8.4.0", True),
        ("9.6.0-x", True),
     ("11.4.5-MariaDB-log", True), ("5.5.5-10.6.1-MariaDB", True), ("8.0.21", None), ("8.0.22-13", None),
     ("else", None)],
)  # fmt: skip
def test_what_is_known_of_versions(version: str, *, expected: bool | None) -> None:
    assert signs_years(version) is expected


def test_the_version_decides_where_both_would_fit() -> None:
    assert signs(parse_table_map(body(Y3, b"\x40"), years=False)) == WITHOUT
    assert signs(parse_table_map(body(Y3, b"\x40"), years=True)) == WITH
    assert signs(parse_table_map(body(Y3, b"\x60"), mariadb=True)) == [False, None, True, False]


def test_what_the_event_shows_counts_before_the_version() -> None:
    eight = [*[t.LONG] * 8, t.YEAR]
    assert signs(parse_table_map(body(eight, b"\x01"), years=True)) == [*[False] * 7, True, None]
    assert signs(parse_table_map(body(eight, b"\x01\x80"), years=False)) == [*[False] * 7, True, None]
    assert signs(parse_table_map(body(Y3, b"\x60", VISIBILITY), years=False)) == [False, None, True, False]


def test_bits_behind_the_last_column_are_of_a_column_more() -> None:
    assert signs(parse_table_map(body(Y3, b"\x10"), years=False)) == [False, None, False, True]
    with pytest.raises(IndexError):
        parse_table_map(body(Y3, b"\x08"), years=True)
    with pytest.raises(IndexError):
        parse_table_map(body(Y3, b"\x40\x00"), years=True)


def test_where_it_makes_no_difference_nothing_is_open() -> None:
    behind = parse_table_map(body([t.LONG, t.LONG, t.YEAR], b"\x40"))
    assert (signs(behind), behind.other) == ([False, True, None], ())


def test_the_catalog_decides_last() -> None:
    found = parse_table_map(body(Y3, b"\x40"))
    assert (signs(found), [column.unsigned for column in found.other]) == (WITH, WITHOUT)
    for unsigned, expected in ((True, WITHOUT), (False, WITH)):
        known = _schema(unsigned=unsigned)
        assert signs(complete(found, (), known, lambda: None)) == expected
    with pytest.raises(UnsupportedType, match="UNSIGNED"):
        complete(found, (), None, lambda: None)


def _schema(*, unsigned: bool) -> TableSchema:
    def column(name: str, text: str) -> Column:
        return Column(name, BIGINT if "unsigned" in text else INT, nullable=False, source_type=text)

    third = "int unsigned" if unsigned else "int"
    columns = (column("c0", "int"), column("c1", "year"), column("c2", third), column("c3", "int"))
    return TableSchema(TABLE, columns, ("c0",))
