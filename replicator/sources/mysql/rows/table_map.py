"""TABLE_MAP events: what the log says about a table's columns.

Layout: MySQL's libs/mysql/binlog/event/rows_event.h (class Table_map_event); the same in MariaDB since 10.5.
"""

# ruff: noqa: PLR2004 - sizes and codes of the wire format, which the sources above define

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from replicator.model.identifiers import TableId
from replicator.sources.mysql.wire.bounded_slices import part
from replicator.sources.mysql.wire.events import length_encoded

DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = range(14)
NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = range(14, 20)
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, JSON, NEWDECIMAL, ENUM, SET, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = (
    242, *range(245, 256)
)  # fmt: skip

_METADATA_SIZES = {
    FLOAT: 1, DOUBLE: 1, VARCHAR: 2, VARCHAR_COMPRESSED: 2, BIT: 2, NEWDECIMAL: 2, ENUM: 2, SET: 2, STRING: 2,
    VAR_STRING: 2,
    BLOB: 1, TINY_BLOB: 1, MEDIUM_BLOB: 1, LONG_BLOB: 1, BLOB_COMPRESSED: 1, GEOMETRY: 1, JSON: 1, VECTOR: 1,
    TIMESTAMP2: 1, DATETIME2: 1, TIME2: 1,
}  # fmt: skip
_INTEGERS = frozenset({TINY, SHORT, INT24, LONG, LONGLONG})
_SIGNED = _INTEGERS | {DECIMAL, FLOAT, DOUBLE, NEWDECIMAL}
# Versions of MySQL: up to the first, YEAR has no sign bit (sql/field.h, is_numeric_type; 8.0.12 was looked at); from
# the second on it has one, as in MariaDB (sql/field_common_properties.h, has_signedess_information_type).  Of those
# between, nothing is known here.
_YEARS_UNSIGNED, _YEARS_SIGNED = (8, 0, 20), (8, 0, 23)
_TEXT = frozenset(
    {VARCHAR, VARCHAR_COMPRESSED, STRING, VAR_STRING, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB_COMPRESSED}
)
BINARY_CHARSET = 63
_BLOB_LIKE = frozenset({BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR})
# What a type's metadata can be; other values would make the decoder read other bytes than the value's.
_POSSIBLE: dict[int, frozenset[int] | range] = {
    **dict.fromkeys(_BLOB_LIKE, range(1, 5)), **dict.fromkeys((TIMESTAMP2, DATETIME2, TIME2), range(7)),
    FLOAT: range(4, 5),
    DOUBLE: range(8, 9), BIT: range(1, 65), ENUM: range(1, 3), SET: frozenset({1, 2, 3, 4, 8}),
}  # fmt: skip
_BARE = frozenset({TINY, SHORT, LONG, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE})
_MAX_DIGITS = 65
# MariaDB keeps a UNIQUE index over long columns as hidden columns behind all others, and logs them (sql/sql_table.cc,
# add_hash_field).
_HASH = re.compile(r"DB_ROW_HASH_\d+")


@dataclass(frozen=True, slots=True)
class LogColumn:
    """One column as the log describes it.

    `type` is the real type (ENUM and SET are logged inside STRING), `metadata` its two metadata bytes as MySQL numbers
    them: for STRING the length in bytes, for VARCHAR the maximum in bytes, for NEWDECIMAL precision << 8 | scale, for
    ENUM and SET the size of a value, for BIT its number of bits, for temporal types the fraction's digits, for blobs
    the size of their length.  `name` is empty, `unsigned` and `charset` (a collation id) are None where the log does
    not say.
    `hidden`: by its name and place a column that MariaDB made for itself.
    """

    type: int
    metadata: int
    nullable: bool
    name: str = ""
    unsigned: bool | None = None
    charset: int | None = None
    labels: tuple[bytes, ...] = ()
    geometry: int | None = None
    visible: bool = True
    hidden: bool = False

    @property
    def is_integer(self) -> bool:
        """Its values depend on its sign."""
        return self.type in _INTEGERS


@dataclass(frozen=True)
class TableMap:
    """A TABLE_MAP event.  `key` has positions of primary key columns; it is empty too where the log does not say.

    `prefixed` is True where the primary key holds only the beginning of a column.  `named`: the log has full metadata.
    `other`: where the log leaves open which of two descriptions the columns have, the second (only signs of integers
    differ).
    """

    table: TableId
    columns: tuple[LogColumn, ...]
    key: tuple[int, ...] = ()
    prefixed: bool = False
    mariadb: bool = False
    other: tuple[LogColumn, ...] = ()

    @cached_property
    def named(self) -> bool:
        """True with binlog_row_metadata=FULL."""
        return all(column.name for column in self.columns)


def table_id(body: bytes) -> int:
    """The number by which the rows events of this log refer to a TABLE_MAP or to which a rows event refers."""
    return int.from_bytes(body[:6], "little")


def table_name(body: bytes) -> TableId:
    """The table that a TABLE_MAP event is of."""
    return _table_name(body)[0]


def signs_years(version: str) -> bool | None:
    """Does a server of this version write a sign bit for YEAR?  None: unknown."""
    if "MariaDB" in version:
        return True
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    numbers = tuple(map(int, found.groups())) if found else ()
    return None if not numbers or _YEARS_UNSIGNED < numbers < _YEARS_SIGNED else numbers >= _YEARS_SIGNED


def parse_table_map(body: bytes, *, mariadb: bool = False, years: bool | None = None) -> TableMap:
    """All of a TABLE_MAP event; fields of the optional part that are unknown here are skipped.

    `years`: does the server write a sign bit for YEAR (see `signs_years`)?
    """
    found, at = _table_name(body)
    count, at = length_encoded(body, at)
    types, at = part(body, at, count), at + count
    size, at = length_encoded(body, at)
    columns = _columns(types, part(body, at, size), part(body, at + size, (count + 7) // 8))
    at += size + (count + 7) // 8
    optional = _Optional(columns, mariadb)
    while at < len(body):
        kind = body[at]
        optional.kinds.add(kind)
        size, at = length_encoded(body, at + 1)
        if reader := _READERS.get(kind):
            reader(optional, part(body, at, size))
        at += size
    if at != len(body):
        message = "the end of a table's description"
        raise IndexError(message)
    if mariadb:
        _hide_hashes(optional)
    described, *others = _with_signs(optional, years=years)
    return TableMap(found, described, optional.key, optional.prefixed, mariadb, others[0] if others else ())


def _hide_hashes(optional: _Optional) -> None:
    for index, column in reversed(list(enumerate(optional.columns))):
        if column.type != LONGLONG or not _HASH.fullmatch(column.name):
            return
        optional.put(index, hidden=True)


def _table_name(body: bytes) -> tuple[TableId, int]:
    database, at = _name(body, 8)
    table, at = _name(body, at)
    return TableId(database, table), at


def _name(body: bytes, at: int) -> tuple[str, int]:
    name = part(body, at + 1, body[at] + 1)
    if name[-1] or len(name) == 1:
        message = "the name of a database or table"
        raise IndexError(message)
    return name[:-1].decode("utf-8"), at + len(name) + 1


def _columns(types: bytes, metadata: bytes, nulls: bytes) -> list[LogColumn]:
    columns, at = [], 0
    for index, kind in enumerate(types):
        size = _METADATA_SIZES.get(kind, 0)
        real, value = _real_type(kind, part(metadata, at, size))
        _check_metadata(real, value)
        at += size
        columns.append(LogColumn(real, value, bool(nulls[index >> 3] >> (index & 7) & 1)))
    # A type that is unknown here, and has metadata, is refused with its name once it is known which column it is.
    if not columns or (at != len(metadata) and all(kind in _METADATA_SIZES or kind in _BARE for kind in types)):
        message = "the types of a table"
        raise IndexError(message)
    return columns


def _check_metadata(kind: int, value: int) -> None:
    digits, scale = value >> 8, value & 0xFF
    possible = (
        0 < digits <= _MAX_DIGITS and scale <= digits if kind == NEWDECIMAL else value in _POSSIBLE.get(kind, (value,))
    )
    if not possible:
        message = f"metadata {value} of type {kind}"
        raise IndexError(message)


def _real_type(kind: int, metadata: bytes) -> tuple[int, int]:
    """ENUM and SET hide in STRING's metadata, and the two high bits of a long CHAR's length in its type byte."""
    if kind in (STRING, VAR_STRING, ENUM, SET):
        first, second = metadata
        if first & 0x30 != 0x30:  # CHAR of 256 bytes and more
            return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4
        return (first, second) if first in (ENUM, SET, STRING) else (kind, second)
    if kind == BIT:
        return kind, metadata[1] * 8 + metadata[0]
    if kind == NEWDECIMAL:
        return kind, metadata[0] << 8 | metadata[1]
    return kind, int.from_bytes(metadata, "little")


@dataclass
class _Optional:
    """The columns while the optional metadata is read into them."""

    columns: list[LogColumn]
    mariadb: bool
    key: tuple[int, ...] = ()
    prefixed: bool = False
    signs: bytes | None = None
    kinds: set[int] = field(default_factory=set)

    def where(self, wanted: Callable[[LogColumn], bool]) -> list[int]:
        return [index for index, column in enumerate(self.columns) if wanted(column)]

    def put(self, index: int, **values: object) -> None:
        self.columns[index] = replace(self.columns[index], **values)  # type: ignore[arg-type]


def _bits(data: bytes, indexes: list[int]) -> Iterator[tuple[int, bool]]:
    for place, index in enumerate(indexes):
        yield index, bool(data[place >> 3] & 0x80 >> (place & 7))


def _integers(data: bytes) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = length_encoded(data, at)
        values.append(value)
    return values


def _strings(data: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    values = []
    for _ in range(count):
        size, at = length_encoded(data, at)
        values.append(part(data, at, size))
        at += size
    return values, at


def _signedness(optional: _Optional, data: bytes) -> None:
    optional.signs = data


def _with_signs(optional: _Optional, *, years: bool | None) -> list[tuple[LogColumn, ...]]:
    """The columns with their signs: once, or twice where the log leaves open whether YEAR has a bit and it matters.

    What the log shows counts before what is known of the server's version.
    """
    columns = tuple(optional.columns)
    if optional.signs is None:
        return [columns]
    fitting = {counted: signed for counted in (True, False) if (signed := _signed(optional, years=counted)) is not None}
    if not fitting:
        message = "signs of columns"
        raise IndexError(message)
    shown = _years_shown(optional)
    chosen = years if shown is None else shown
    if chosen in fitting:
        return [fitting[chosen]]
    first, *others = fitting.values()
    return [first, *(other for other in others if _signs_of_integers(other) != _signs_of_integers(first))]


def _years_shown(optional: _Optional) -> bool | None:
    """Does the log's bitmap of signs have a bit for YEAR columns?  None if the log does not show it.

    MySQL logs column visibility since 8.0.23; by then YEAR had a bit.  The first versions with this bitmap logged no
    character sets of labels; there YEAR had none.
    """
    if optional.mariadb or _VISIBILITY in optional.kinds:
        return True
    return False if optional.kinds & _LABELS and not optional.kinds & _LABEL_CHARSETS else None


def _signed(optional: _Optional, *, years: bool) -> tuple[LogColumn, ...] | None:
    """Return the columns with their signs; None if the bitmap does not fit this number of columns."""
    data, indexes = optional.signs or b"", optional.where(lambda c: c.type in _SIGNED or (years and c.type == YEAR))
    if len(data) != (len(indexes) + 7) // 8 or int.from_bytes(data) & (1 << -len(indexes) % 8) - 1:
        return None
    signs = {index: unsigned for index, unsigned in _bits(data, indexes) if optional.columns[index].type != YEAR}
    return tuple(
        replace(column, unsigned=signs[index]) if index in signs else column
        for index, column in enumerate(optional.columns)
    )


def _signs_of_integers(columns: tuple[LogColumn, ...]) -> list[bool | None]:
    return [column.unsigned for column in columns if column.is_integer]


def _text_columns(optional: _Optional) -> list[list[int]]:
    """MariaDB counts geometry among them, MySQL does not.

    MySQL 9 counts VECTOR; what does not fit that is read without.
    """
    counted = _TEXT | {GEOMETRY} if optional.mariadb else _TEXT
    return [
        optional.where(lambda c: c.type in counted or c.type == VECTOR),
        optional.where(lambda c: c.type in counted),
    ]


def _labelled_columns(optional: _Optional) -> list[list[int]]:
    return [optional.where(lambda c: c.type in (ENUM, SET))]


def _charsets(which: Callable[[_Optional], list[list[int]]], *, default: bool) -> Callable[[_Optional, bytes], None]:
    """`which`: the columns that may be counted, the first that fit are."""

    def read(optional: _Optional, data: bytes) -> None:
        values = _integers(data)
        for indexes in which(optional):
            found = _each(values, len(indexes)) if default else values
            if len(found) == len(indexes) and _are_binary(optional, VECTOR, dict(zip(indexes, found, strict=True))):
                for index, value in zip(indexes, found, strict=True):
                    optional.put(index, charset=value)
                return
        message = "character sets of columns"
        raise IndexError(message)

    return read


def _each(values: list[int], count: int) -> list[int]:
    """Expand a default and pairs of place and exception to one value per column; empty if they do not fit `count`."""
    exceptions = dict(zip(values[1::2], values[2::2], strict=False))
    if 2 * len(exceptions) != len(values) - 1 or any(place >= count for place in exceptions):
        return []
    return [exceptions.get(place, values[0]) for place in range(count)]


def _are_binary(optional: _Optional, kind: int, charsets: dict[int, int]) -> bool:
    return all(value == BINARY_CHARSET for index, value in charsets.items() if optional.columns[index].type == kind)


def _column_names(optional: _Optional, data: bytes) -> None:
    names, end = _strings(data, 0, len(optional.columns))
    if end != len(data) or not all(names) or len(set(names)) != len(names):
        message = "names of columns"
        raise IndexError(message)
    for index, name in enumerate(names):
        optional.put(index, name=name.decode("utf-8"))


def _labels(kind: int) -> Callable[[_Optional, bytes], None]:
    def read(optional: _Optional, data: bytes) -> None:
        at = 0
        for index in optional.where(lambda c: c.type == kind):
            count, at = length_encoded(data, at)
            values, at = _strings(data, at, count)
            optional.put(index, labels=tuple(values))

    return read


def _geometry(optional: _Optional, data: bytes) -> None:
    for index, value in zip(optional.where(lambda c: c.type == GEOMETRY), _integers(data), strict=False):
        optional.put(index, geometry=value)


def _simple_key(optional: _Optional, data: bytes) -> None:
    optional.key = _places(optional, _integers(data))


def _places(optional: _Optional, values: list[int]) -> tuple[int, ...]:
    _check_places(values, len(optional.columns))
    return tuple(values)


def _check_places(places: Collection[int], count: int) -> None:
    """Places are of columns that there are, each once."""
    if any(place >= count for place in places) or len(set(places)) != len(places):
        message = f"a column that is none of {count}"
        raise IndexError(message)


def _prefixed_key(optional: _Optional, data: bytes) -> None:
    values = _integers(data)
    optional.key = _places(optional, values[::2])
    optional.prefixed = any(values[1::2])
    if len(values) % 2:
        message = "a key's prefix"
        raise IndexError(message)


def _visibility(optional: _Optional, data: bytes) -> None:
    for index, visible in _bits(data, list(range(len(optional.columns)))):
        optional.put(index, visible=visible)


_VISIBILITY, _LABELS, _LABEL_CHARSETS = 12, frozenset({5, 6}), frozenset({10, 11})
_READERS: dict[int, Callable[[_Optional, bytes], None]] = {
    1: _signedness,
    2: _charsets(_text_columns, default=True),
    3: _charsets(_text_columns, default=False),
    4: _column_names,
    5: _labels(SET),
    6: _labels(ENUM),
    7: _geometry,
    8: _simple_key,
    9: _prefixed_key,
    10: _charsets(_labelled_columns, default=True),
    11: _charsets(_labelled_columns, default=False),
    _VISIBILITY: _visibility,
}  # 13 (vector dimensionality) and later ones decide nothing here
