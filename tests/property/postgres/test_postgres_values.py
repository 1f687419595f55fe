"""One value, one result: the server's text of a value and its binary form become the same Arrow value, and the right
one.

TIDEMARK_TEST_POSTGRES=host:port:user:password:database asks another server.
"""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicator.errors import LogCorrupt, ValueDoesNotFit
from replicator.model.identifiers import TableId
from replicator.model.types import STRING
from replicator.sources.postgres.catalog.attributes import Attribute, PgType
from replicator.sources.postgres.catalog.key_range_sql import text_of
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect
from replicator.sources.postgres.rows.columns import ColumnConverter, binary_exact
from replicator.sources.postgres.rows.tuples import BINARY, NULL, TEXT, Cells, Found
from replicator.sources.postgres.snapshot.copy_rows import CopyRows
from replicator.sources.postgres.types import column_of, numeric_typmod
from tests.environment import HOME
from tests.property.budget import examples
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
TABLE = TableId("s", "t")
FEW = settings(max_examples=examples(12, 2000), deadline=None, derandomize=not os.environ.get("TIDEMARK_FUZZ_EXAMPLES"))
EXACT = Context(prec=60)


@pytest.fixture(scope="module")
def server() -> Iterator[Connection]:
    if other := os.environ.get("TIDEMARK_TEST_POSTGRES"):
        address = dict(zip(("host", "port", "user", "password", "database"), other.split(":"), strict=True))
        with closing(connect(PostgresConfig.parse(address))) as connection:
            yield connection
        return
    embedded = EmbeddedPostgresSource(HOME / "postgres-values", durable=False)
    embedded.start()
    try:
        with closing(connect(PostgresConfig.parse(embedded.address | {"database": "shop"}))) as connection:
            yield connection
    finally:
        embedded.stop()


@dataclass(frozen=True)
class Kind:
    """A type, texts that the server takes for its values, and what they are in Python (None: the text and the binary
    form are only compared with each other).
    """

    name: str
    texts: st.SearchStrategy[str]
    value: Callable[[str], Any] | None = None
    typmod: int = -1

    @property
    def sql(self) -> str:
        if self.typmod < 0:
            return self.name
        packed = self.typmod - 4
        return f"{self.name}({packed >> 16},{packed & 0x7FF})"

    @property
    def attribute(self) -> Attribute:
        return Attribute("v", 1, PgType(0, self.name), self.typmod, self.sql)


def integers(bits: int) -> st.SearchStrategy[str]:
    edge = 2 ** (bits - 1)
    return (st.integers(-edge, edge - 1) | st.sampled_from([-edge, edge - 1, 0, -1])).map(str)


def floats(width: int) -> st.SearchStrategy[str]:
    return st.floats(width=width).map(repr).map(lambda text: {"inf": "Infinity", "-inf": "-Infinity"}.get(text, text))  # type: ignore[call-overload,no-any-return]


def decimals(precision: int, scale: int) -> Kind:
    most = 10**precision - 1
    numbers = st.integers(-most, most) | st.sampled_from(
        [most, -most, 0, 1, -1, min(10**scale, most), 10 ** (precision - 1)]
    )
    return Kind(
        "numeric",
        numbers.map(lambda n: str(Decimal(n).scaleb(-scale, EXACT))),
        Decimal,
        numeric_typmod(precision, scale),
    )


def numeric_text(digits: str, point: int, sign: str) -> str:
    place = point % (len(digits) + 1)
    return f"{sign}{digits[:place] or '0'}.{digits[place:]}"


NUMERICS = (
    st.builds(
        numeric_text, st.text("0123456789", min_size=1, max_size=60), st.integers(0, 60), st.sampled_from(["", "-"])
    )
    | st.builds("{}e{}".format, st.integers(-99999, 99999), st.integers(-16000, 131000))
    | st.sampled_from(
        ["NaN", "0", "0.0", "0.0000", "1e-16383", "9" * 131072, "10000", "9999.9999", "0.00010000", "100000000"]
    )
)
SMALL = st.integers(-(10**4), 10**4).map(str)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
YEARS = st.integers(1, 9999) | st.sampled_from([1, 4, 1582, 1969, 1970, 1999, 2000, 9999])
DAYS = st.builds(
    lambda year, day: date.fromordinal(date(year, 1, 1).toordinal() + day % 365).isoformat(), YEARS, st.integers(0, 364)
)
CLOCKS = st.builds(
    lambda us: f" {us // 3_600_000_000:02}:{us // 60_000_000 % 60:02}:{us // 1_000_000 % 60:02}.{us % 1_000_000:06}",
    st.integers(0, 86_400_000_000 - 1) | st.sampled_from([0, 1, 86_400_000_000 - 1]),
)
NO_DATES = ["infinity", "-infinity", "0001-12-31 BC", "4713-01-01 BC", "10000-01-01"]
MOMENTS = st.builds(str.__add__, DAYS, CLOCKS)
NO_MOMENTS = [*NO_DATES, "294276-12-31 23:59:59.999999", "0001-12-31 23:59:59.999999 BC", "10000-01-01 00:00:00.000001"]


def day(text: str) -> date | None:
    return None if text in NO_DATES or text == "5874897-12-31" else date.fromisoformat(text)


def moment(text: str) -> datetime | None:
    return None if text in NO_MOMENTS else datetime.fromisoformat(text)


def instant(text: str) -> datetime | None:
    found = moment(text)
    return None if found is None else found.replace(tzinfo=UTC)


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
).map(lambda one: json.dumps(one, ensure_ascii=False).replace("\\u0000", ""))
KINDS = [
    Kind("bool", st.sampled_from(["t", "f"]), lambda text: text == "t"),
    Kind("int2", integers(16), int),
    Kind("int4", integers(32), int),
    Kind("int8", integers(64), int),
    Kind("oid", st.integers(0, 2**32 - 1).map(str), int),
    Kind("float4", floats(32), lambda text: struct.unpack("f", struct.pack("f", float(text)))[0]),
    Kind("float8", floats(64), float),
    *(decimals(*size) for size in ((1, 0), (1, 1), (4, 2), (9, 9), (10, 3), (18, 6), (19, 4), (20, 0), (37, 5), (38, 0),
            (38, 1), (38, 2))),
    *(decimals(*size) for size in ((38, 3), (38, 10), (38, 37), (38, 38), (5, 4), (6, 5))),
    Kind("numeric", NUMERICS),
    Kind("numeric", SMALL.map(lambda text: f"{text}e38"), None, numeric_typmod(60, 10)),
    Kind("text", TEXTS, str),
    Kind("varchar", TEXTS, str),
    Kind("bpchar", TEXTS, str),
    Kind("name", st.text("abcé", max_size=30), str),
    Kind("json", DOCUMENTS, str),
    Kind("jsonb", DOCUMENTS),
    Kind("uuid", st.uuids().map(str), str),
    Kind("bytea", st.binary(max_size=60).map(lambda data: "\\x" + data.hex()), lambda text: bytes.fromhex(text[2:])),
    Kind("date", DAYS | st.sampled_from([*NO_DATES, "5874897-12-31"]), day),
    Kind("timestamp", MOMENTS | st.sampled_from(NO_MOMENTS), moment),
    Kind("timestamptz", MOMENTS | st.sampled_from(NO_MOMENTS), instant),
]  # fmt: skip


def asked(server: Connection, kind: Kind, texts: Sequence[str | None]) -> tuple[Cells, Cells]:
    """The same values in binary and as text."""
    with server.cursor() as cursor:
        values = cursor.mogrify("unnest(%s::text[]) WITH ORDINALITY", (list(texts),)).decode()
    rows = f"(SELECT t::{kind.sql} AS v, n FROM {values} AS u(t, n)) AS r"
    sql = f"COPY (SELECT v, {text_of(kind.attribute)} FROM {rows} ORDER BY n) TO STDOUT (FORMAT binary)"
    copied = CopyRows(server, sql, [BINARY, TEXT], "the test", batch_rows=1000, batch_bytes=2**20)
    binary, text = next(iter(list(copied.batches())))
    return binary, text


def where(cells: Cells, data: Any) -> tuple[Found, npt.NDArray[np.int64]]:
    """The same values as they lie in messages, and rows made of some of them, and of none."""
    parts = [one or b"" for one in cells.values.to_pylist()]
    gaps = [data.randint(0, 3) for _ in parts]
    starts = np.cumsum([0, *(len(part) + gap for part, gap in zip(parts, gaps, strict=True))])[:-1]
    octets = b"".join(part + bytes(gap) for part, gap in zip(parts, gaps, strict=True)) + bytes(data.choice((0, 9)))
    lengths = np.array([len(part) for part in parts], np.int64)
    tuples = np.array([data.randint(-1, len(parts) - 1) for _ in range(data.randint(0, 50))], np.int64)
    return Found(np.frombuffer(octets, np.uint8), cells.kind, starts.astype(np.int64), lengths), tuples


def rows_are_as_converted(converter: ColumnConverter, cells: Cells, array: pa.Array, data: Any) -> bool:
    """False where they are not made directly."""
    found, tuples = where(cells, data)
    made = converter.rows(found, [tuples])
    if made is None:
        return False
    made[0].validate(full=True)
    assert made[0].type == array.type
    assert bits(made[0]) == bits(array.take(pa.array(tuples, mask=tuples < 0)))
    return True


def bits(array: pa.Array) -> list[Any]:
    """Floats by their bits: negative zero is not zero, and NaN is NaN."""
    if pa.types.is_floating(array.type):
        return list(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist())
    return list(array.to_pylist())


@pytest.mark.parametrize("kind", KINDS, ids=[kind.sql for kind in KINDS])
def test_text_and_binary_of_a_value_are_one(server: Connection, kind: Kind) -> None:
    attribute = kind.attribute
    column = column_of(attribute, TABLE)
    assert binary_exact(*attribute.plain, column.type)

    @FEW
    @given(texts=st.lists(st.none() | kind.texts, min_size=1, max_size=40), data=st.randoms(use_true_random=False))
    def check(texts: list[str | None], data: Any) -> None:
        binary, text = asked(server, kind, texts)
        converter = ColumnConverter(column, attribute, TABLE, "null")
        ours, bad = converter.convert(text), converter.bad
        theirs, also_bad = converter.convert(binary), converter.bad
        for array in (ours, theirs):
            array.validate(full=True)
            assert array.type == column.type.arrow
        assert bits(ours) == bits(theirs)
        assert (bad is None) == (also_bad is None)
        assert bad is None or bad.equals(also_bad)
        if rows_are_as_converted(converter, binary, theirs, data):
            assert converter.bad is None
        elif bad is None:
            assert kind.name in {"oid", "jsonb", "uuid"} or (kind.name == "numeric" and column.type == STRING)
        rows_are_as_converted(converter, text, ours, data)
        if kind.value is not None:
            expected = [None if one is None else kind.value(one) for one in texts]
            assert bits(ours) == bits(pa.array(expected, ours.type))
        chosen = [data.random() < 0.5 for _ in texts]
        mixed = Cells(
            np.where(chosen, binary.kind, text.kind),
            pa.array(
                [
                    (b if c else t)
                    for b, t, c in zip(binary.values.to_pylist(), text.values.to_pylist(), chosen, strict=True)
                ],
                pa.binary(),
            ),
        )
        assert bits(converter.convert(mixed)) == bits(ours)
        assert (bad is None) == (converter.bad is None)
        assert bad is None or bad.equals(converter.bad)

    check()


@FEW
@given(
    values=st.lists(st.none() | st.binary(max_size=24), max_size=6),
    name=st.sampled_from(sorted({k.name for k in KINDS})),
)
def test_bytes_that_are_no_value_are_refused_and_never_read_beyond(values: list[bytes | None], name: str) -> None:
    for typmod in (-1, numeric_typmod(9, 2)) if name == "numeric" else (-1,):
        attribute = Attribute("v", 1, PgType(0, name), typmod, name)
        converter = ColumnConverter(column_of(attribute, TABLE), attribute, TABLE, "null")
        for form in (TEXT, BINARY):
            kinds = np.array([NULL if value is None else form for value in values], np.uint8)
            cells = Cells(kinds, pa.array(values, pa.binary()))
            found_at, _ = where(cells, random.Random(0))
            direct = converter.rows(found_at, [np.arange(len(values))])
            try:
                found = converter.convert(cells)
            except (LogCorrupt, ValueDoesNotFit):
                assert direct is None
                continue
            else:
                found.validate(full=True)
                assert len(found) == len(values)
                assert direct is None or bits(direct[0]) == bits(found)
