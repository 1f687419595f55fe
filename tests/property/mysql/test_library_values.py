"""Random rows of every type: what our reader says of the log is what pymysqlreplication says, value by value.

Where the library is known to be wrong, or gives something else than the value, the server's own SELECT takes its place:
`Case.wrong` names why.
"""

from __future__ import annotations

import ipaddress
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pymysql
import pytest
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

from replicator.model.change import ChangeBatch
from tests.integration.mysql.test_mysql_log import Log
from tests.property.budget import examples, seed
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
Image = dict[str, Any]
ROWS, COLUMNS = 25, 24  # of a table
COMPRESSED = "the library gives no rows of compressed events, and knows no compressed columns"
TRAILING = "the library loses the zeros at the end of BINARY(n)"
YEAR_ZERO = "the library makes 1900 of YEAR 0"
NEGATIVE = "the library reads negative TIME with fractions wrongly"
UTF16 = "the library reads UTF-16, UCS-2 and UTF-32 in the wrong order of bytes, or not at all"
NO_CODEC = "the library gives bytes where Python has no codec of the character set's name"
NOT_UTF8 = "the library reads the labels of ENUM and SET as UTF-8, whatever the column's character set"
EMPTY_LABEL = "the library has no text for an ENUM that is the invalid value"


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Case:
    """A column type; `literal` makes a value in SQL; `ours`, `theirs` (of the library), `selected` bring values to one
    form.

    `wrong`: why the library's value is not asked (a text), of one value (a function of the form), or of none.
    """

    ddl: str
    literal: Callable[[random.Random], str]
    ours: Callable[[Any], Any] = same
    theirs: Callable[[Any], Any] = same
    selected: Callable[[Any], Any] = same
    wrong: str | Callable[[Any], str] = ""

    def reason(self, value: Any) -> str:
        return self.wrong if isinstance(self.wrong, str) else self.wrong(value)


def integer(bits: int, name: str, *, unsigned: bool) -> Case:
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    edges = [low, low + 1, -1 if low else 0, 0, 1, high - 1, high]
    literal = lambda rng: str(rng.choice(edges) if rng.random() < 0.3 else rng.randint(low, high))
    return Case(f"{name}{' unsigned' if unsigned else ''}", literal, int)


def decimal(precision: int, scale: int) -> Case:
    def literal(rng: random.Random) -> str:
        digits = rng.choice([0, 1, scale, precision, rng.randint(1, precision)])
        number = rng.choice([10**digits - 1, rng.randint(0, 10**digits)]) % 10**precision
        return f"{rng.choice(['', '-'])}{Decimal(number).scaleb(-scale):f}" if number else "0"

    return Case(f"decimal({precision},{scale})", literal, Decimal)


def floating(name: str, most: float) -> Case:
    def literal(rng: random.Random) -> str:
        plain = rng.choice(
            [0.0, 1.0, -1.5, rng.uniform(-1e6, 1e6), rng.uniform(-1, 1) * most, rng.uniform(-1, 1) / most]
        )
        return repr(plain)

    return Case(name, literal)


def bits(width: int) -> Case:
    number = lambda value: int.from_bytes(value, "big")
    return Case(f"bit({width})", lambda rng: f"b'{rng.getrandbits(width):b}'", int, lambda text: int(text, 2), number)


def clock_text(value: timedelta, digits: int) -> str:
    """As the server shows it."""
    micros = abs(value) // timedelta(microseconds=1)
    fraction = f".{micros % 1_000_000:06}"[: digits + 1] if digits else ""
    seconds = micros // 1_000_000
    return (
        f"{'-' if value < timedelta() else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"
    )


def fraction(rng: random.Random, digits: int) -> str:
    return f".{rng.choice([0, 1, 10**digits - 1, rng.randrange(10**digits)]):0{digits}}" if digits else ""


def clock(digits: int) -> Case:
    def literal(rng: random.Random) -> str:
        hours = rng.choice([0, 1, 23, 24, 837, rng.randint(0, 837)])
        return (
            f"'{rng.choice(['', '-'])}{hours}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}{fraction(rng, digits)}'"
        )

    text = lambda value: clock_text(value, digits)
    wrong = lambda value: NEGATIVE if digits and value.startswith("-") else ""
    return Case(f"time({digits})", literal, same, text, text, wrong)


def day(rng: random.Random, first: int, last: int) -> str:
    year = rng.choice([first, last, rng.randint(first, last)])
    return f"{year:04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def moment(rng: random.Random, digits: int, first: int, last: int) -> str:
    clock = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
    return f"'{day(rng, first, last)} {clock}{fraction(rng, digits)}'"


def datetimes(digits: int) -> Case:
    return Case(f"datetime({digits})", lambda rng: moment(rng, digits, 1, 9999))


def timestamps(digits: int) -> Case:
    naive = lambda value: value.replace(tzinfo=None)
    return Case(f"timestamp({digits}) null", lambda rng: moment(rng, digits, 1971, 2037), naive)


ALPHABETS = {
    "utf8mb4": "aZ é中😀'\\\"\n\0", "utf8mb3": "aé中 '", "latin1": "aZé€ÿ '", "ascii": "a~ '", "cp1251": "aяЖЁ",
    "koi8r": "aяЖ",
    "greek": "aαβΩ", "hebrew": "aאבת", "gbk": "a中文", "big5": "a中文", "euckr": "a한글", "cp932": "aあ亜ｱ①",
    "latin2": "aőű",
    "latin5": "ağş",
    "ucs2": "aé中", "utf16": "aé中😀", "utf16le": "aé中😀", "utf32": "aé中😀", "swe7": "abc", "dec8": "aé",
    "macroman": "aé",
}  # fmt: skip
WIDE = ("ucs2", "utf16", "utf16le", "utf32")
KINDS = ("char(12)", "varchar(20)", "varchar(300)", "tinytext", "text", "mediumtext", "longtext")


def text(kind: str, charset: str) -> Case:
    def literal(rng: random.Random) -> str:
        value = "".join(rng.choices(ALPHABETS[charset], k=rng.randint(0, 12)))
        if kind.startswith("char"):
            value = value.rstrip(" ")
        return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"

    wrong = UTF16 if charset in WIDE else ""
    unknown = lambda value: NO_CODEC if charset in ("swe7", "dec8", "macroman") and value else ""
    return Case(f"{kind} character set {charset}", literal, wrong=wrong or unknown)


def octets(kind: str, most: int) -> Case:
    def literal(rng: random.Random) -> str:
        value = rng.choice(
            [rng.randbytes(rng.randint(0, most)), bytes(rng.randint(0, most)), rng.randbytes(most // 2) + b"\0"]
        )
        return f"X'{value[:most].hex()}'"

    trailing = lambda value: TRAILING if value.endswith(b"\0") else ""
    return Case(kind, literal, theirs=bare, wrong=trailing if kind.startswith("binary") else "")


def label(rng: random.Random, labels: Sequence[str]) -> str:
    return rng.choice([*labels, "no label"] if rng.random() < 0.2 else labels)


def labels(charset: str) -> tuple[Case, Case]:
    found = ("x", "y y", "a''b", "é") if charset != "ascii" else ("x", "y")
    listed = ", ".join(f"'{one}'" for one in found)

    def members(value: Any) -> frozenset[str]:
        return frozenset(part for part in (value.split(",") if isinstance(value, str) else value or ()) if part)

    def wrong(value: Any) -> str:
        if charset == "latin1" and "é" in value:
            return NOT_UTF8
        return "" if value or isinstance(value, frozenset) else EMPTY_LABEL

    one = Case(f"enum({listed}) character set {charset}", lambda rng: f"'{label(rng, found)}'", wrong=wrong)
    some = Case(
        f"set({listed}) character set {charset}",
        lambda rng: f"'{','.join(rng.sample(found, rng.randint(0, len(found))))}'",
        members, members, members, wrong,
    )  # fmt: skip
    return one, some


def bare(value: bytes | str) -> bytes:
    """The library's bytes: where there are none it makes a text of them."""
    return value if isinstance(value, bytes) else value.encode()


def packed(kind: str, literal: Callable[[random.Random], str], pack: Callable[[str], bytes], size: int) -> Case:
    """MariaDB's UUID, INET4 and INET6: the library gives the bytes of BINARY(n), without zeros at the end."""
    return Case(kind, literal, pack, lambda value: bare(value).ljust(size, b"\0"), pack)


def compressed(kind: str, made: Case) -> Case:
    return Case(kind, made.literal, wrong=COMPRESSED)


def address(version: int, rng: random.Random) -> str:
    size = 4 if version == 4 else 16
    data = rng.choice(
        [rng.randbytes(size), bytes(size), rng.randbytes(2) + bytes(size - 2), bytes(size - 4) + rng.randbytes(4)]
    )
    return f"'{ipaddress.ip_address(data)}'"


SIZES = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
BINARY = [("binary(9)", 9), ("binary(255)", 255), ("varbinary(20)", 20), ("varbinary(400)", 400)]


def some_integer(rng: random.Random) -> Case:
    name = rng.choice(list(SIZES))
    return integer(SIZES[name], name, unsigned=rng.random() < 0.5)


def some_decimal(rng: random.Random) -> Case:
    scale = rng.randint(0, 38)
    return decimal(rng.randint(max(scale, 1), 65), scale)


def year(_: random.Random) -> Case:
    literal = lambda rng: rng.choice(["0", "1901", "2155", str(rng.randint(1901, 2155))])
    return Case("year", literal, wrong=lambda value: "" if value else YEAR_ZERO)


def geometry(_: random.Random) -> Case:
    def literal(rng: random.Random) -> str:
        return f"ST_GeomFromText('POINT({rng.randint(-9, 9)} {rng.uniform(0, 9)})', {rng.choice([0, 4326])})"

    return Case("geometry", literal)


def identifier(_: random.Random) -> Case:
    literal = lambda rng: f"'{uuid.UUID(bytes=rng.choice([rng.randbytes(16), rng.randbytes(14) + bytes(2)]))}'"
    return packed("uuid", literal, lambda value: uuid.UUID(value).bytes, 16)


def network(rng: random.Random) -> Case:
    version = rng.choice([4, 6])
    pack = lambda value: ipaddress.ip_address(value).packed
    return packed(f"inet{version}", lambda rng: address(version, rng), pack, {4: 4, 6: 16}[version])


FAMILIES: list[Callable[[random.Random], Case]] = [
    some_integer,
    some_decimal,
    lambda rng: rng.choice([floating("float", 3e38), floating("double", 1e308)]),
    lambda rng: bits(rng.randint(1, 64)),
    year,
    lambda _: Case("date", lambda rng: f"'{day(rng, 1, 9999)}'"),
    lambda rng: rng.choice([clock, datetimes, timestamps])(rng.randint(0, 6)),
    lambda rng: text(rng.choice(KINDS), rng.choice(list(ALPHABETS))),
    lambda rng: octets(*rng.choice(BINARY)),
    lambda rng: octets(rng.choice(["tinyblob", "blob", "mediumblob", "longblob"]), 200),
    lambda rng: rng.choice(labels(rng.choice(["utf8mb4", "latin1", "ascii"]))),
    lambda _: Case("json", lambda rng: f'\'{{"a": [{rng.randint(0, 9)}.50, null, "é"]}}\''),
    geometry,
    identifier,
    network,
]
FAMILIES_NOT_THEIRS = [
    *FAMILIES,
    lambda _: compressed("varchar(300) compressed", text("varchar(300)", "utf8mb4")),
    lambda _: compressed("mediumblob compressed", octets("mediumblob", 200)),
]


@pytest.fixture
def log(mariadb: EmbeddedMariaDB) -> Iterator[Log]:
    log = Log(mariadb, "library")
    yield log
    log.run("SET GLOBAL log_bin_compress = OFF", f"DROP DATABASE IF EXISTS {log.database}")
    log.control.close()


def write(log: Log, cases: dict[str, Case], rng: random.Random) -> None:
    """Inserts of one and of many rows, updates and deletes."""
    made = ", ".join(f"`{name}` {case.ddl}" for name, case in cases.items())
    log.run(
        "SET SESSION innodb_strict_mode = OFF",
        "SET SESSION sql_mode = ''",
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (id int primary key, {made})",
    )
    log.here()
    value = lambda case: "NULL" if rng.random() < 0.1 else case.literal(rng)
    rows = [f"({number}, {', '.join(value(case) for case in cases.values())})" for number in range(ROWS)]
    while rows:
        size = rng.choice([1, 1, 4])
        some, rows = rows[:size], rows[size:]
        log.run(f"INSERT INTO t VALUES {', '.join(some)}")
    for number in rng.sample(range(ROWS), ROWS // 4):
        name = rng.choice(list(cases))
        log.run(f"UPDATE t SET `{name}` = {value(cases[name])} WHERE id = {number}")


def connected(db: str | None = None, **settings: Any) -> Any:
    """The library's connections: it calls their arguments by names that are deprecated."""
    return pymysql.connect(database=db, **settings)


def theirs(log: Log) -> Iterator[tuple[str, Image | None, Image | None]]:
    """(operation, old row, new row)."""
    address = log.server.address
    settings = {
        "host": address["host"],
        "port": address["port"],
        "user": address["user"],
        "password": address["password"],
    }
    reader = BinLogStreamReader(
        settings, server_id=4711, log_file=log.start.file, log_pos=log.start.position, resume_stream=True,
        blocking=False,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent], only_schemas=[log.database],
        enable_logging=False, pymysql_wrapper=connected,
        ignore_decode_errors=True,  # it reads UTF-32 in the wrong order of bytes, and would stop there
    )  # fmt: skip
    try:
        for event in reader:
            for row in event.rows:
                if isinstance(event, WriteRowsEvent):
                    yield "INSERT", None, row["values"]
                elif isinstance(event, DeleteRowsEvent):
                    yield "DELETE", row["values"], None
                else:
                    yield "UPDATE", row["before_values"], row["after_values"]
    finally:
        reader.close()


def ours(log: Log) -> list[tuple[str, Image | None, Image | None]]:
    found = []
    for message in log.read(log.all("t"), log.schemas(log.all("t"), "t")):
        if isinstance(message, ChangeBatch):
            for row in message.data.to_pylist():
                old = {
                    name.removeprefix("_before_"): value for name, value in row.items() if name.startswith("_before_")
                }
                new = {name: row[name] for name in old}
                kind = row["_operation"]
                found.append(
                    (row["_sequence_num"], kind, None if kind == "INSERT" else old, None if kind == "DELETE" else new)
                )
    return [row[1:] for row in sorted(found, key=lambda row: row[0])]


def selected(log: Log) -> dict[int, Image]:
    address = log.server.address
    with (
        pymysql.connect(
            **address, database=log.database, charset="utf8mb4", cursorclass=pymysql.cursors.DictCursor
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("SELECT * FROM t")
        return {row["id"]: row for row in cursor.fetchall()}


def formed(case: Case, form: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else form(value)


def compare(cases: dict[str, Case], mine: Image, other: Image) -> int:
    """An image of ours and of the library's; returns how many values were the library's business."""
    assert mine["id"] == other["id"]
    compared = 0
    for name, case in cases.items():
        value = formed(case, case.ours, mine[name])
        if value is None or not case.reason(value):
            found = case.theirs(other[name]) if other[name] is not None else None
            empty = isinstance(value, frozenset) and not value and found is None  # the library's empty SET is None
            assert empty or same_value(value, found), (case.ddl, value, found)
            compared += 1
    return compared


def same_value(value: Any, found: Any) -> bool:
    if isinstance(value, Decimal) and isinstance(found, Decimal):
        return value == found
    return bool(value == found and isinstance(found, type(value) if not isinstance(value, bool) else object))


@pytest.mark.timeout(3600)
def test_values_are_the_librarys_or_where_it_is_wrong_the_servers(log: Log) -> None:
    base = seed()
    print(f"TIDEMARK_FUZZ_SEED={base}")
    for number in range(max(1, examples(200) // ROWS)):
        rng = random.Random(f"{base}/{number}")
        cases = {f"c{place}": rng.choice(FAMILIES)(rng) for place in range(COLUMNS - len(FAMILIES))}
        cases |= {f"f{place}": family(rng) for place, family in enumerate(FAMILIES)}
        write(log, cases, rng)
        mine, other = ours(log), list(theirs(log))
        assert [row[0] for row in mine] == [row[0] for row in other]
        compared = 0
        for (_, *images), (_, *their_images) in zip(mine, other, strict=True):
            for one, two in zip(images, their_images, strict=True):
                assert (one is None) == (two is None)
                if one is not None and two is not None:
                    compared += compare(cases, one, two)
        assert compared > ROWS * COLUMNS // 2
        compare_with_select(log, cases, mine, every=False)


@pytest.mark.timeout(3600)
def test_what_the_library_cannot_read_is_what_the_server_says(log: Log) -> None:
    base = seed()
    print(f"TIDEMARK_FUZZ_SEED={base}")
    log.run("SET GLOBAL log_bin_compress = ON", "SET GLOBAL log_bin_compress_min_len = 10")
    log.control.close()
    log.__init__(log.server, "library")  # type: ignore[misc]
    for number in range(max(1, examples(100) // ROWS)):
        rng = random.Random(f"compressed {base}/{number}")
        cases = {f"c{place}": rng.choice(FAMILIES_NOT_THEIRS)(rng) for place in range(COLUMNS)}
        cases |= {"v": FAMILIES_NOT_THEIRS[-2](rng), "b": FAMILIES_NOT_THEIRS[-1](rng)}
        write(log, cases, rng)
        compare_with_select(log, cases, ours(log), every=True)


def compare_with_select(
    log: Log, cases: dict[str, Case], mine: Sequence[tuple[str, Image | None, Image | None]], *, every: bool
) -> None:
    """The newest image of each row; `every` value, or those that are not asked of the library."""
    newest = {new["id"]: new for _, _, new in mine if new is not None}
    there = selected(log)
    assert newest.keys() == there.keys()
    for key, row in newest.items():
        for name, case in cases.items():
            value = formed(case, case.ours, row[name])
            if case.ddl == "float" or value is None:  # SELECT shows six digits of a FLOAT
                assert (value is None) == (there[key][name] is None)
            elif every or case.reason(value):
                found = formed(case, case.selected, there[key][name])
                assert value == found, (case.ddl, value, found)


def test_dates_that_are_none_are_none_for_both(log: Log) -> None:
    log.run("SET SESSION sql_mode = ''", "CREATE TABLE t (id int primary key, d date, m datetime(3))")
    log.here()
    log.run("INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00'), (2, '2024-02-29', '9999-12-31 23:59:59.999')")
    values = [(new["d"], new["m"]) for _, _, new in ours(log) if new]
    assert values == [(None, None), (date(2024, 2, 29), datetime(9999, 12, 31, 23, 59, 59, 999000))]  # noqa: DTZ001
    assert values == [(new["d"], new["m"]) for _, _, new in theirs(log) if new]
