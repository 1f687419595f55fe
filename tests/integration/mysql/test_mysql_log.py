"""The live log of MariaDB: every value as SELECT gives it, every transaction once, every schema change at its place."""

from __future__ import annotations

import itertools
import random
import signal
import statistics
import struct
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replicator.errors import (
    LogPurged,
    RowImageIncomplete,
    SourceReplaced,
    SourceUnreachable,
    TableError,
    TidemarkError,
)
from replicator.model.change import (
    ChangeBatch,
    Commit,
    Ddl,
    Heartbeat,
    LogMessage,
    Notice,
    SchemaChange,
    TableFailed,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import KeyRange, ReadOptions
from replicator.sources.mysql.catalog.catalog import MySqlCatalog
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.connection import connect
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.snapshot.reader import MySqlSnapshotReader
from replicator.sources.mysql.stream.reader import BinlogReader, current_offset, identity
from replicator.sources.mysql.watermark import WatermarkTable, watermark_table
from replicator.sources.shared.date_policy import date_policy
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
END = "end"


class Log:
    """A test's database, and the messages of the log from a position on."""

    def __init__(self, server: EmbeddedMariaDB, database: str) -> None:
        self.server, self.database = server, database
        address = server.address
        self.config = MySqlConfig(address["host"], address["port"], address["user"], address["password"])
        self.control = connect(self.config)
        self.options = ReadOptions()
        self.run(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}")
        self.marks = WatermarkTable("tidemark", "me")
        self.start = current_offset(self.control)

    def run(self, *statements: str) -> None:
        with self.control.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def table(self, name: str) -> TableId:
        return TableId(self.database, name)

    def schemas(self, tables: TableSet, *names: str) -> dict[TableId, TableSchema]:
        catalog = MySqlCatalog(self.control, zero_dates=date_policy(self.options), left_out=tables)
        found = catalog.describe([self.table(name) for name in names])
        return {table: schema for table, schema in found.items() if isinstance(schema, TableSchema)}

    def here(self) -> None:
        self.start = current_offset(self.control)

    def read(
        self, tables: TableSet, schemas: dict[TableId, TableSchema] | None = None, start: BinlogOffset | None = None
    ) -> list[LogMessage]:
        """All messages up to a mark that is written now."""
        self.marks.write(self.control, END)
        reader = BinlogReader(self.config, self.options, "me", watermark_table("tidemark"))
        messages: list[LogMessage] = []
        marked = False
        for message in reader.read(start or self.start, tables, schemas or {}):
            if isinstance(message, Watermark) and message.token == END:
                marked = True
            elif not isinstance(message, Heartbeat):
                messages.append(message)
            if marked and isinstance(message, Commit):
                break
        reader.close()
        return messages

    def all(self, *names: str) -> TableSet:
        return TableSet(tables=frozenset(self.table(name) for name in names))


@pytest.fixture
def log(mariadb: EmbeddedMariaDB, request: pytest.FixtureRequest) -> Iterator[Log]:
    log = Log(mariadb, f"log_{abs(hash(request.node.name)) % 100000}")
    yield log
    log.run(
        "SET GLOBAL binlog_row_metadata = 'FULL'",
        "SET GLOBAL log_bin_compress = OFF",
        f"DROP DATABASE IF EXISTS {log.database}",
    )
    log.control.close()


def rows(messages: list[LogMessage], *columns: str) -> list[tuple[Any, ...]]:
    """(operation, row columns …) of all batches in the order of their ordinals."""
    result = []
    for message in messages:
        if isinstance(message, ChangeBatch):
            chosen = message.data.select(["_sequence_num", "_operation", *columns])
            result += [tuple(row.values()) for row in chosen.to_pylist()]
    return [row[1:] for row in sorted(result, key=lambda row: row[0])]


def changes(messages: list[LogMessage]) -> list[tuple[str, str, bool]]:
    return [(m.operation.value, m.table.name, m.reload) for m in messages if isinstance(m, SchemaChange)]


def ordinals(messages: list[LogMessage]) -> list[int]:
    found = [m.ordinal for m in messages if isinstance(m, SchemaChange)]
    for message in messages:
        if isinstance(message, ChangeBatch):
            found += message.data.column(0).to_pylist()
    return sorted(found)


COLUMNS = {
    "t1": "tinyint", "t1u": "tinyint unsigned", "t2": "smallint", "t2u": "smallint unsigned", "t3": "mediumint",
    "t3u": "mediumint unsigned", "t4": "int", "t4u": "int unsigned zerofill", "t8": "bigint", "t8u": "bigint unsigned",
    "d1": "decimal(1,0)", "d2": "decimal(10,2)", "d3": "decimal(38,30)", "d4": "decimal(65,30)", "d5": "decimal(9,9)",
    "d6": "decimal(19,0)", "f": "float", "fu": "float unsigned", "fd": "float(7,3)", "do": "double", "b1": "bit(1)",
    "b5": "bit(5)", "b63": "bit(63)", "b64": "bit(64)", "y": "year", "da": "date", "dt": "datetime",
    "dt3": "datetime(3)",
    "dt6": "datetime(6)", "ts": "timestamp null", "ts1": "timestamp(1) null", "ts6": "timestamp(6) null", "ti": "time",
    "ti1": "time(1)", "ti2": "time(2)", "ti3": "time(3)", "ti4": "time(4)", "ti5": "time(5)", "ti6": "time(6)",
    "c": "char(10)", "c300": "char(255)", "vc": "varchar(20)", "vc400": "varchar(400)",
    "l1": "varchar(30) character set latin1",
    "ucs": "varchar(30) character set ucs2", "u16": "char(30) character set utf16",
    "u16le": "varchar(30) character set utf16le",
    "u32": "varchar(30) character set utf32", "u3": "text character set utf8mb3",
    "sj": "varchar(30) character set sjis",
    "cp": "varchar(30) character set cp932", "gb": "varchar(30) character set gbk",
    "b": "varchar(30) character set big5",
    "uj": "varchar(30) character set ujis", "ek": "varchar(30) character set euckr",
    "gr": "varchar(30) character set greek",
    "he": "varchar(30) character set hebrew", "k8": "varchar(30) character set koi8r",
    "cy": "varchar(30) character set cp1251",
    "bn": "binary(7)", "bn300": "binary(255)", "vb": "varbinary(20)", "vb400": "varbinary(400)", "tb": "tinyblob",
    "bl": "blob",
    "mb": "mediumblob", "lb": "longblob", "tt": "tinytext", "tx": "text", "mt": "mediumtext", "lt": "longtext",
    "js": "json",
    "e": "enum('a','b''c','é','d,')", "el": "enum('x','ä') character set latin1", "e300": None,
    "s": "set('a','b','é','d')",
    "s64": None, "g": "geometry", "po": "point", "uu": "uuid", "i4": "inet4", "i6": "inet6",
    "vcc": "varchar(1000) compressed", "blc": "mediumblob compressed", "txc": "text character set utf16 compressed",
    "vv": "int as (t1 + 1) virtual", "vp": "bigint as (t1 * 2) persistent", "inv": "int invisible",
}  # fmt: skip
COLUMNS["e300"] = "enum(" + ",".join(f"'v{i}'" for i in range(300)) + ")"
COLUMNS["s64"] = "set(" + ",".join(f"'s{i}'" for i in range(64)) + ")"


def _number(column: str, rng: random.Random) -> str:
    sizes = {"1": 8, "2": 16, "3": 24, "4": 32, "8": 64}
    bits, unsigned = sizes[column[1]], column.endswith("u")
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return str(rng.choice([low, high, 0, 1, rng.randint(low, high)]))


def _decimal(definition: str, rng: random.Random) -> str:
    precision, scale = (int(part) for part in definition[8:-1].split(","))
    digits = rng.choice([precision, rng.randint(1, precision)])
    value = Decimal(rng.randint(0, 10**digits - 1)).scaleb(-scale, context=None)
    return f"{'-' if rng.random() < 0.5 else ''}{value:f}"


def _text(alphabet: str, length: int, rng: random.Random) -> str:
    return (
        "'"
        + "".join(rng.choice(alphabet) for _ in range(rng.randint(0, length)))
        .rstrip()
        .replace("\\", "\\\\")
        .replace("'", "''")
        + "'"
    )


ALPHABETS = {
    "latin1": "aZ é€ÿ'\\", "ucs2": "aé中", "utf16": "aé中😀", "utf16le": "aé中😀", "utf32": "aé中😀", "utf8mb3": "aé中",
    "sjis": "aあ亜ｱ表", "cp932": "aあ亜ｱ①", "gbk": "a中文", "big5": "a中文碁", "ujis": "aあ亜ｱ", "euckr": "a한글갂",
    "greek": "aαβΩ",
    "hebrew": "aאבת", "koi8r": "aяЖ", "cp1251": "aяЖЁ",
}  # fmt: skip


def _literal(name: str, definition: str, rng: random.Random) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each type
    kind = definition.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    digits = (
        int(definition.split("(")[1].split(")", maxsplit=1)[0])
        if kind in ("datetime", "timestamp", "time") and "(" in definition
        else 0
    )
    fraction = f".{rng.randint(0, 10**digits - 1):0{digits}}" if digits else ""
    if kind in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return _number(name if name[0] == "t" else "t1", rng)
    if kind == "decimal":
        return _decimal(definition, rng)
    if kind in ("float", "double"):
        value = rng.choice([0.0, 1.5, -2.25, rng.uniform(-999, 999), rng.uniform(-1, 1) * 1e-30, 1e30])
        return repr(abs(value) if name == "fu" else round(value, 3) % 999 if name == "fd" else value)
    if kind == "bit":
        return str(rng.randint(0, 2 ** int(definition[4:-1]) - 1))
    if kind == "year":
        return rng.choice(["0", "1901", "2155", "2024"])
    if kind in ("date", "datetime"):
        day = f"{rng.choice([1, 1000, 1582, 1970, 2024, 9999]):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        return f"'{day}'" if kind == "date" else f"'{day} {rng.randint(0, 23):02}:59:{rng.randint(0, 59):02}{fraction}'"
    if kind == "timestamp":
        return f"'{rng.choice([1971, 2000, 2037])}-{rng.randint(1, 12):02}-15 12:{rng.randint(0, 59):02}:30{fraction}'"
    if kind == "time":
        hours = f"{rng.choice(['', '-'])}{rng.choice([0, 1, 23, 838]):02}"
        return f"'{hours}:{rng.randint(0, 58):02}:{rng.randint(0, 58):02}{fraction}'"
    if kind in ("enum", "set"):
        labels = {
            "e": ["a", "b''c", "é", "d,"],
            "el": ["x", "ä"],
            "e300": [f"v{i}" for i in range(300)],
            "s": ["a", "b", "é", "d"],
        }
        options = labels.get(name, [f"s{i}" for i in range(64)])
        chosen = [rng.choice(options)] if kind == "enum" else rng.sample(options, rng.randint(0, len(options)))
        return "'" + ",".join(chosen) + "'"
    if kind in ("binary", "varbinary") or kind.endswith("blob"):
        size = int(definition.split("(")[1].split(")", maxsplit=1)[0]) if "(" in definition else 250
        data = rng.choice(
            [rng.randbytes(rng.randint(0, size)), bytes(rng.randint(0, size)), rng.randbytes(3)[:size] + b"\0"]
        )
        return f"X'{data[:size].hex()}'"
    if kind in ("geometry", "point"):
        return f"ST_GeomFromText('POINT({rng.uniform(-9, 9)} {rng.randint(0, 9)})', {rng.choice([0, 4326])})"
    if kind == "uuid":
        return f"'{uuid.UUID(bytes=rng.choice([rng.randbytes(16), rng.randbytes(14) + bytes(2), bytes(16)]))}'"
    if kind == "inet4":
        return f"'{rng.choice(['0.0.0.0', '10.0.0.0', '1.2.3.4', '255.255.255.255'])}'"
    if kind == "inet6":
        return "'" + ":".join(f"{rng.choice([0, 0, 0, 1, 0xFFFF, rng.randint(0, 65535)]):x}" for _ in range(8)) + "'"
    if kind == "json":
        return rng.choice(['\'{"b": 1, "a": [1.50, null]}\'', "'[]'", "'\"x\"'"])
    charset = definition.split("character set ")[1].split(" ", maxsplit=1)[0] if "character set" in definition else ""
    return _text(ALPHABETS.get(charset, "aZ é中😀'\\\""), 10 if kind == "char" and "(10)" in definition else 20, rng)


def _every_type(log: Log, count: int, seed: int) -> None:
    rng = random.Random(seed)
    columns = ", ".join(f"`{name}` {definition}" for name, definition in COLUMNS.items())
    log.run("SET SESSION innodb_strict_mode = OFF", f"CREATE TABLE every (id int primary key, {columns})")
    written = {name: definition for name, definition in COLUMNS.items() if name not in ("vv", "vp")}
    log.here()
    for number in range(count):
        values = [
            "NULL" if rng.random() < 0.15 else _literal(name, definition, rng) for name, definition in written.items()
        ]
        names = ", ".join(f"`{name}`" for name in written)
        log.run(f"INSERT INTO every (id, {names}) VALUES ({number}, {', '.join(values)})")


def _selected(log: Log, name: str, options: ReadOptions) -> pa.Table:
    reader = MySqlSnapshotReader(log.config, options, "me")
    chunk = reader.read_chunk(log.table(name), KeyRange())
    table = pa.Table.from_batches(list(chunk.batches), chunk.schema.row_arrow).sort_by("id")
    reader.close()
    return table


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
def test_every_type_has_in_the_log_the_value_that_select_gives(log: Log, compressed: str) -> None:
    log.run(f"SET GLOBAL log_bin_compress = {compressed}", "SET GLOBAL log_bin_compress_min_len = 10")
    log.control.close()
    log.control = connect(log.config)
    log.run(f"USE {log.database}")
    _every_type(log, 120, seed=len(compressed))
    log.run("UPDATE every SET t1 = NULL WHERE id % 3 = 0", "DELETE FROM every WHERE id % 7 = 0")
    tables = log.all("every")
    messages = log.read(tables, log.schemas(tables, "every"))
    assert changes(messages) == []
    state: dict[int, dict[str, Any]] = {}
    for message in messages:
        assert isinstance(message, ChangeBatch | Commit)
        if isinstance(message, ChangeBatch):
            for row in message.data.to_pylist():
                before = {key[8:]: value for key, value in row.items() if key.startswith("_before_")}
                if row["_operation"] != "INSERT":
                    assert before == state.pop(before["id"])
                if row["_operation"] != "DELETE":
                    state[row["id"]] = {key: row[key] for key in before}
    expected = _selected(log, "every", log.options).to_pylist()
    assert [state[key] for key in sorted(state)] == expected


def test_the_doubts_about_the_library_do_not_hold_here(log: Log) -> None:
    log.run(
        "CREATE TABLE d (id int primary key, t time(3), b binary(4), y year, u varchar(9) character set utf16, x"
        " varchar(3))"
    )
    log.here()
    log.run(r"INSERT INTO d VALUES (1, '-00:00:00.250', X'0100', 0, 'é😀', NULL)", "UPDATE d SET x = 'a'")
    messages = log.read(log.all("d"), log.schemas(TableSet(), "d"))
    value = ("-00:00:00.250", b"\1\0\0\0", 0, "é😀")
    assert rows(messages, "t", "b", "y", "u", "x") == [("INSERT", *value, None), ("UPDATE", *value, "a")]


def test_zero_dates_follow_the_policy(log: Log) -> None:
    log.run("CREATE TABLE z (id int primary key, d date, t datetime(3), s timestamp(2) null)")
    log.here()
    log.run(
        "INSERT INTO z VALUES (1, '0000-00-00', '2020-00-10 01:02:03.5', '0000-00-00'), (2, '2020-01-02', NULL,"
        " '2020-01-02')"
    )
    messages = log.read(log.all("z"), log.schemas(TableSet(), "z"))
    assert rows(messages, "d", "t", "s")[0] == ("INSERT", None, None, None)
    log.options = ReadOptions(values={"zero_dates": "text"})
    messages = log.read(log.all("z"), log.schemas(TableSet(), "z"))
    assert rows(messages, "d", "t", "s") == [
        ("INSERT", "0000-00-00", "2020-00-10 01:02:03.500", "0000-00-00 00:00:00.00"),
        ("INSERT", "2020-01-02", None, "2020-01-02 00:00:00.00"),
    ]
    log.options = ReadOptions(values={"zero_dates": "fail"})
    (failed,) = [m for m in log.read(log.all("z"), log.schemas(TableSet(), "z")) if isinstance(m, TableFailed)]
    assert "0000-00-00" in failed.error.message


@pytest.fixture
def old_formats(log: Log) -> Iterator[Log]:
    log.run("SET GLOBAL mysql56_temporal_format = OFF")
    yield log
    log.run("SET GLOBAL mysql56_temporal_format = ON")


def test_old_temporal_formats_without_fractions_are_read(old_formats: Log) -> None:
    log = old_formats
    log.run("CREATE TABLE o (id int primary key, d datetime, t time, s timestamp null)")
    tables = log.all("o")
    known = log.schemas(tables, "o")
    log.here()
    log.run(
        "INSERT INTO o VALUES (1, '2020-01-02 03:04:05', '-11:22:33', '2020-01-02 03:04:05'), (2, NULL, '838:59:59',"
        " NULL)"
    )
    for schemas in (known, {}):
        messages = log.read(tables, schemas)
        assert not [m for m in messages if isinstance(m, TableFailed)]
        found = next(m for m in messages if isinstance(m, ChangeBatch)).data.select(["id", "d", "t", "s"]).to_pylist()
        assert found == _selected(log, "o", log.options).to_pylist()


@pytest.mark.parametrize("definition", ["datetime(6)", "time(3)", "timestamp(2) null"])
def test_old_temporal_formats_with_fractions_are_refused_by_catalog_and_log_alike(
    old_formats: Log, definition: str
) -> None:
    log = old_formats
    log.here()
    log.run(
        f"CREATE TABLE o (id int primary key, v {definition}, w int)",
        "INSERT INTO o VALUES (1, '2020-01-02 03:04:05.6', 7)",
    )
    refused = MySqlCatalog(log.control).describe([log.table("o")])[log.table("o")]
    (failed,) = [m.error for m in log.read(log.all("o")) if isinstance(m, TableFailed)]
    for error in (refused, failed):
        assert isinstance(error, TableError)
        assert "Column v of" in error.message
        assert "mysql56_temporal_format" in error.remedy
    reader = MySqlSnapshotReader(log.config, log.options, "me")
    with pytest.raises(TableError, match="old temporal format"):
        reader.read_chunk(log.table("o"), KeyRange())
    reader.close()
    without = TableSet(tables=frozenset({log.table("o")}), excluded_columns={log.table("o"): frozenset({"v"})})
    (failed,) = [m.error for m in log.read(without) if isinstance(m, TableFailed)]  # its length is not known either
    assert "Column v of" in failed.message
    log.run("SET GLOBAL mysql56_temporal_format = ON", "ALTER TABLE o FORCE")
    log.here()
    log.run("INSERT INTO o VALUES (2, '2020-01-02 03:04:05.5', 8)")
    assert [row[2] for row in rows(log.read(log.all("o"), log.schemas(log.all("o"), "o")), "id", "w")] == [8]


def test_transactions_end_in_the_right_way(log: Log) -> None:
    log.run("CREATE TABLE i (id int primary key) ENGINE=InnoDB", "CREATE TABLE m (id int primary key) ENGINE=MyISAM")
    log.here()
    log.run(
        "BEGIN",
        "INSERT INTO i VALUES (1)",
        "SAVEPOINT a",
        "INSERT INTO i VALUES (2)",
        "ROLLBACK TO a",
        "INSERT INTO i VALUES (3)",
        "COMMIT",
    )
    log.run("BEGIN", "INSERT INTO i VALUES (4)", "INSERT INTO m VALUES (1)", "ROLLBACK")
    log.run(
        "BEGIN",
        "INSERT INTO i VALUES (5)",
        "SAVEPOINT b",
        "INSERT INTO i VALUES (6)",
        "INSERT INTO m VALUES (2)",
        "ROLLBACK TO b",
        "COMMIT",
    )
    log.run(
        "BEGIN",
        "INSERT INTO i VALUES (7)",
        "CREATE TEMPORARY TABLE tmp (a int)",
        "DROP TEMPORARY TABLE tmp",
        "ROLLBACK",
    )
    log.run("INSERT INTO i VALUES (8)")
    for again, kept in (("B", 9), ("b", 11)):  # names of savepoints compare without case
        log.run(
            "BEGIN",
            f"INSERT INTO i VALUES ({kept})",
            "SAVEPOINT b",
            f"INSERT INTO i VALUES ({kept + 1})",
            f"INSERT INTO m VALUES ({kept})",
            f"ROLLBACK TO {again}",
            "COMMIT",
        )
    messages = log.read(log.all("i", "m"), log.schemas(TableSet(), "i", "m"))
    by_table = {
        name: [r[1] for m in messages if isinstance(m, ChangeBatch) and m.table.name == name for r in rows([m], "id")]
        for name in "im"
    }
    assert by_table == {"i": [1, 3, 5, 8, 9, 11], "m": [1, 2, 9, 11]}
    assert ordinals(messages) == list(range(10))
    assert not changes(messages)


def test_a_savepoint_that_is_named_in_another_way_has_the_table_read_again(log: Log) -> None:
    log.run("CREATE TABLE i (id int primary key)", "CREATE TABLE m (id int primary key) ENGINE=MyISAM")
    log.here()
    log.run(
        "BEGIN", "INSERT INTO i VALUES (1)", "SAVEPOINT `é`", "INSERT INTO i VALUES (2)", "INSERT INTO m VALUES (1)"
    )
    log.run("ROLLBACK TO `E`", "COMMIT")
    messages = log.read(log.all("i"), log.schemas(TableSet(), "i"))
    assert changes(messages) == [("ALTER_TABLE", "i", True)]


def test_xa_rows_count_when_the_transaction_is_committed(log: Log) -> None:
    log.run("CREATE TABLE x (id int primary key)")
    log.here()
    other = log.server.connect(database=log.database)
    with other.cursor() as cursor:
        for statement in ("XA START 'a','b',7", "INSERT INTO x VALUES (1)", "XA END 'a','b',7", "XA PREPARE 'a','b',7"):
            cursor.execute(statement)
        log.run("INSERT INTO x VALUES (2)")
        cursor.execute("XA COMMIT 'a','b',7")
        for statement in (
            "XA START 'c'",
            "INSERT INTO x VALUES (3)",
            "XA END 'c'",
            "XA PREPARE 'c'",
            "XA ROLLBACK 'c'",
        ):
            cursor.execute(statement)
        for statement in ("XA START 'd'", "INSERT INTO x VALUES (4)", "XA END 'd'", "XA COMMIT 'd' ONE PHASE"):
            cursor.execute(statement)
    other.close()
    messages = log.read(log.all("x"), log.schemas(TableSet(), "x"))
    assert rows(messages, "id") == [("INSERT", 2), ("INSERT", 1), ("INSERT", 4)]


def test_whatever_is_written_into_the_table_of_marks_reading_goes_on(log: Log) -> None:
    log.run("CREATE TABLE x (id int primary key)")
    log.marks.write(log.control, "made")
    log.here()
    log.run(
        "INSERT INTO x VALUES (1)",
        "UPDATE tidemark.watermark SET token = '', at = '2000-01-01'",
        "DELETE FROM tidemark.watermark",
    )
    log.run("RENAME TABLE tidemark.watermark TO tidemark.kept")
    for other in (
        "v int",
        "v json, w longblob",
        "replicator varbinary(9), token bit(9)",
        "a geometry not null",
        "a set('b')",
    ):
        values = "ST_GeomFromText('POINT(1 1)')" if "geometry" in other else ", ".join(["'1'"] * (other.count(",") + 1))
        log.run(
            f"CREATE TABLE tidemark.watermark ({other})", f"INSERT INTO tidemark.watermark VALUES ({values})",
            "DELETE FROM tidemark.watermark", "DROP TABLE tidemark.watermark",
        )  # fmt: skip
    log.run("RENAME TABLE tidemark.kept TO tidemark.watermark", "INSERT INTO x VALUES (2)")
    messages = log.read(log.all("x"), log.schemas(TableSet(), "x"))
    assert rows(messages, "id") == [("INSERT", 1), ("INSERT", 2)]
    assert len([message for message in messages if isinstance(message, Notice)]) == 1


def test_reading_resumes_at_every_commit_without_loss_or_repetition(log: Log) -> None:
    log.options = ReadOptions(batch_rows=3)
    log.run("CREATE TABLE r (id int primary key)")
    log.here()
    for number in range(10):
        log.run(f"INSERT INTO r VALUES ({number})", "FLUSH BINARY LOGS" if number == 5 else "DO 0")
    schemas = log.schemas(TableSet(), "r")
    messages = log.read(log.all("r"), schemas)
    seen = 0
    for message in messages:
        if isinstance(message, ChangeBatch):
            seen += message.data.num_rows
        if isinstance(message, Commit):
            assert isinstance(message.offset, BinlogOffset)
            assert message.offset.gtid
            for offset in (message.offset, BinlogOffset(message.offset.file, message.offset.position)):
                rest = log.read(log.all("r"), schemas, offset)
                assert rows(rest, "id") == [("INSERT", number) for number in range(seen, 10)]
    assert seen == 10


def test_a_transaction_larger_than_memory_comes_in_parts_and_without_commit(log: Log) -> None:
    log.options = ReadOptions(batch_rows=1000, batch_bytes=50_000)
    log.run("CREATE TABLE big (id int primary key, t varchar(100))")
    log.here()
    log.run("INSERT INTO big SELECT seq, repeat('x', 90) FROM seq_1_to_5000")
    messages = log.read(log.all("big"), log.schemas(TableSet(), "big"))
    batches = [m for m in messages if isinstance(m, ChangeBatch)]
    commits = [place for place, m in enumerate(messages) if isinstance(m, Commit)]
    assert len(batches) > 5
    assert not [c for c in commits if 0 < messages.index(batches[0]) < c < messages.index(batches[-1])]
    assert [row[1] for row in rows(messages, "id")] == list(range(1, 5001))


def test_an_event_of_many_packets_is_read(log: Log) -> None:
    log.run("CREATE TABLE l (id int primary key, b longblob)")
    log.here()
    log.run("INSERT INTO l VALUES (1, repeat('ab', 20000000))", "INSERT INTO l VALUES (2, 'x')")
    messages = log.read(log.all("l"), log.schemas(TableSet(), "l"))
    assert [(row[1], len(row[2])) for row in rows(messages, "id", "b")] == [(1, 40_000_000), (2, 1)]


def test_a_partial_row_image_fails_the_table_and_no_other(log: Log) -> None:
    log.run(
        "CREATE TABLE a (id int primary key, x int)",
        "CREATE TABLE b (id int primary key, x int)",
        "INSERT INTO a VALUES (1, 1)",
    )
    schemas = log.schemas(TableSet(), "a", "b")
    log.here()
    log.run(
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE a SET x = 2",
        "SET SESSION binlog_row_image = 'FULL'",
        "INSERT INTO b VALUES (1, 1)",
    )
    messages = log.read(log.all("a", "b"), schemas)
    (failed,) = [m for m in messages if isinstance(m, TableFailed)]
    assert failed.table.name == "a"
    assert isinstance(failed.error, RowImageIncomplete)
    assert rows(messages, "id", "x") == [("INSERT", 1, 1)]


def test_statement_format_fails_the_table_by_name(log: Log) -> None:
    log.run("CREATE TABLE a (id int primary key, x int)", "CREATE TABLE b (id int primary key)")
    schemas = log.schemas(TableSet(), "a", "b")
    log.here()
    log.run(
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO a VALUES (1, 1)",
        "SET SESSION binlog_format = 'ROW'",
        "INSERT INTO b VALUES (1)",
    )
    messages = log.read(log.all("a", "b"), schemas)
    (failed,) = [m for m in messages if isinstance(m, TableFailed)]
    assert failed.table.name == "a"
    assert "INSERT" in failed.error.message
    assert "binlog_format" in failed.error.remedy
    assert rows(messages, "id") == [("INSERT", 1)]


def test_without_column_names_the_table_fails_with_the_setting_to_change(log: Log) -> None:
    log.run("CREATE TABLE a (id int primary key)")
    schemas = log.schemas(TableSet(), "a")
    log.here()
    log.run("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    other = log.server.connect(database=log.database)
    other.cursor().execute("INSERT INTO a VALUES (1)")
    other.close()
    log.run("SET GLOBAL binlog_row_metadata = 'FULL'")
    (failed,) = [m for m in log.read(log.all("a"), schemas) if isinstance(m, TableFailed)]
    assert "binlog_row_metadata" in failed.error.remedy


def test_marks_of_other_replicators_are_nobodys_business(log: Log) -> None:
    WatermarkTable("tidemark", "other").write(log.control, "theirs")
    log.marks.write(log.control, "ours")
    marks = [m.token for m in log.read(TableSet()) if isinstance(m, Watermark)]
    assert marks == ["ours"]


def test_excluded_columns_never_leave_and_keys_stand_in(log: Log) -> None:
    log.run("CREATE TABLE u (secret text, a int not null, b int not null, unique k (b, a))")
    tables = TableSet(frozenset({log.table("u")}), excluded_columns={log.table("u"): frozenset({"secret"})})
    schemas = log.schemas(tables, "u")
    log.here()
    log.run("INSERT INTO u VALUES ('s', 1, 2)")
    messages = log.read(tables, schemas)
    assert changes(messages) == []
    (batch,) = [m for m in messages if isinstance(m, ChangeBatch)]
    assert batch.schema.key == ("b", "a")
    assert "secret" not in str(batch.data.to_pylist())


# ---- schema changes


ALTERS = {
    "ADD COLUMN n int": (False, {}),
    "ADD COLUMN (n int null, o text), ADD INDEX (b)": (False, {}),
    "ADD COLUMN n int NOT NULL": (True, {}),
    "ADD COLUMN n int DEFAULT 5 AFTER id": (True, {}),
    "ADD COLUMN n int AS (b + 1)": (True, {}),
    "DROP COLUMN b": (False, {}),
    "CHANGE b bb int": (False, {"b": "bb"}),
    "RENAME COLUMN b TO bb, DROP COLUMN c": (False, {"b": "bb"}),
    "MODIFY b bigint": (False, {}),
    "MODIFY b smallint": (True, {}),
    "MODIFY b int FIRST": (False, {}),
    "MODIFY c varchar(40)": (False, {}),
    "MODIFY c varchar(5)": (True, {}),
    "MODIFY c text": (False, {}),
    "MODIFY d decimal(12,2)": (False, {}),
    "MODIFY d decimal(12,3)": (True, {}),
    "MODIFY e enum('x','y','z')": (False, {}),
    "MODIFY e enum('y','x')": (True, {}),
    "MODIFY t time(3)": (True, {}),
    "MODIFY f double": (False, {}),
    "MODIFY c varchar(20) CHARACTER SET latin1": (True, {}),
    "CONVERT TO CHARACTER SET utf8mb4": (False, {}),
    "CONVERT TO CHARACTER SET latin1": (True, {}),
    "MODIFY b int NOT NULL DEFAULT 0": (True, {}),
}


@pytest.mark.parametrize("alter", ALTERS)
def test_alter_asks_for_a_reload_only_where_values_may_have_changed(log: Log, alter: str) -> None:
    reload, renamed = ALTERS[alter]
    log.run(
        "CREATE TABLE a (id int primary key, b int, c varchar(20), d decimal(10,2), e enum('x','y'), t time, f float)"
    )
    log.run("SET SESSION sql_mode = ''")
    tables = log.all("a")
    schemas = log.schemas(tables, "a")
    log.here()
    log.run(
        "INSERT INTO a VALUES (1, 2, 'x', 1, 'x', '01:02:03', 1.5)",
        f"ALTER TABLE a {alter}",
        "INSERT INTO a (id) VALUES (2)",
    )
    messages = log.read(tables, schemas)
    found = [m for m in messages if isinstance(m, SchemaChange)]
    assert all(m.operation is Ddl.ALTER_TABLE for m in found)
    assert any(m.reload for m in found) == reload
    assert len(found) <= 1
    if found:
        assert found[0].schema == log.schemas(tables, "a")[log.table("a")]
        assert dict(found[0].renamed_columns) == renamed
        assert found[0].ordinal == 1
    last = [m for m in messages if isinstance(m, ChangeBatch)][-1]
    assert last.schema == log.schemas(tables, "a")[log.table("a")]


def test_ddl_that_was_overtaken_by_later_ddl_still_comes_out_exact(log: Log) -> None:
    log.run("CREATE TABLE a (id int primary key, b int)")
    schemas = log.schemas(TableSet(), "a")
    log.here()
    log.run(
        "ALTER TABLE a ADD n int", "INSERT INTO a VALUES (1, 1, 1)", "ALTER TABLE a ADD o int, DROP n",
        "INSERT INTO a VALUES (2, 2, 2)", "ALTER TABLE a CHANGE o p bigint", "INSERT INTO a VALUES (3, 3, 3)",
        "DROP TABLE a",
    )  # fmt: skip
    messages = log.read(log.all("a"), schemas)
    names = [m.schema.names for m in messages if isinstance(m, ChangeBatch)]
    assert names == [("id", "b", "n"), ("id", "b", "o"), ("id", "b", "p")]
    known = schemas[log.table("a")]
    for message in messages:
        if isinstance(message, SchemaChange) and message.schema:
            known = message.schema
        if isinstance(message, ChangeBatch):
            assert message.schema == known
    assert changes(messages)[-1][0] == "DROP_TABLE"
    assert ordinals(messages) == list(range(len(ordinals(messages))))


def test_columns_that_the_catalog_cannot_tell_any_more_are_read_from_the_table(log: Log) -> None:
    """No row follows that would tell."""
    log.run("CREATE TABLE t (id int primary key)", "CREATE TABLE u (id int primary key)")
    schemas = log.schemas(TableSet(), "t", "u")
    log.here()
    log.run(
        "INSERT INTO t VALUES (1)", "CREATE TABLE _new LIKE t", "ALTER TABLE _new ADD n int",
        "RENAME TABLE t TO _old, _new TO t", "DROP TABLE _old",
        "ALTER TABLE u ADD a int", "ALTER TABLE u RENAME COLUMN a TO b",
    )  # fmt: skip
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    assert [change for change in changes(messages) if change[0] == "ALTER_TABLE"] == [
        ("ALTER_TABLE", "t", True), ("ALTER_TABLE", "u", True),
    ]  # fmt: skip
    last = [m.schema for m in messages if isinstance(m, SchemaChange) and m.table.name == "u"][-1]
    assert last == log.schemas(TableSet(), "u")[log.table("u")]


def test_what_a_chunk_told_of_a_table_without_rows_is_what_the_next_statement_alters(log: Log) -> None:
    """The reader took it for the table without the column, and its next ALTER for one that drops it."""
    log.run("CREATE TABLE t (id int primary key)")
    schemas, tables = log.schemas(TableSet(), "t"), TableSet(databases=frozenset({log.database}))
    log.here()
    log.run("INSERT INTO t VALUES (1)", "CREATE TABLE _new LIKE t", "ALTER TABLE _new ADD n int")
    log.run("RENAME TABLE t TO _old, _new TO t")
    chunk = log.schemas(TableSet(), "t")[log.table("t")]
    log.marks.write(log.control, "chunk")
    log.run("ALTER TABLE t ADD c bigint NOT NULL FIRST")
    log.marks.write(log.control, END)
    reader = BinlogReader(log.config, log.options, "me", watermark_table("tidemark"))
    altered = []
    for message in reader.read(log.start, tables, schemas):
        if isinstance(message, Watermark) and message.token == "chunk":
            reader.learned(chunk, schemas[chunk.table])
        elif isinstance(message, Watermark):
            break
        elif isinstance(message, SchemaChange) and message.table.name == "t":
            altered.append(message)
    reader.close()
    assert [(change.operation, change.reload) for change in altered] == [
        (Ddl.RENAME_TABLE, False), (Ddl.ALTER_TABLE, True), (Ddl.ALTER_TABLE, False),
    ]  # fmt: skip
    assert altered[-1].schema == log.schemas(tables, "t")[log.table("t")]
    assert altered[-1].schema is not None
    assert altered[-1].schema.names == ("c", "id", "n")


def test_the_key_is_the_unique_index_that_the_server_takes_for_it_in_the_log_and_in_the_catalog(log: Log) -> None:
    tables = {
        "a": "a int not null, b int not null, unique x (b, a), unique w (a)",
        "b": "a int not null, b int, unique x (b), unique w (a)",
        "c": "a varchar(3000) not null, b int, unique (a) using hash",
        "d": "a varchar(20) not null, b int, unique (a(5))",
    }
    log.run(*(f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()))
    schemas = log.schemas(TableSet(), *tables)
    log.here()
    log.run(*(f"INSERT INTO {name} VALUES (1, 1)" for name in tables))
    messages = log.read(log.all(*tables), schemas)
    assert changes(messages) == []
    found = {m.table.name: m.schema.key for m in messages if isinstance(m, ChangeBatch)}
    assert found == {"a": ("b", "a"), "b": ("a",), "c": (), "d": ()}


def test_a_key_is_not_taken_from_another_table_that_has_the_name_by_now(log: Log) -> None:
    log.run("CREATE TABLE k (id int primary key, v int)", "INSERT INTO k VALUES (1, 1)")
    log.run("CREATE TABLE u (id int not null unique, v int)")
    schemas = log.schemas(TableSet(), "k", "u")
    log.here()
    log.run(
        "CREATE TABLE c AS SELECT * FROM k", "CREATE TABLE d AS SELECT * FROM k", "ALTER TABLE d ADD w int",
        "INSERT INTO c VALUES (1, 1), (1, 2)", "INSERT INTO d VALUES (1, 1, 1), (1, 2, 2)",
        "INSERT INTO u VALUES (1, 1)",
        "ALTER TABLE u ADD w int", "RENAME TABLE k TO x, c TO k, x TO c, u TO y, d TO u, y TO d",
        "INSERT INTO k VALUES (2, 2)", "INSERT INTO u VALUES (2, 2, 2)", "INSERT INTO c VALUES (3, 3)",
        "INSERT INTO d VALUES (4, 4, 4)",
    )  # fmt: skip
    messages = log.read(TableSet(databases=frozenset({log.database})), schemas)
    keys = [(m.table.name, m.schema.key) for m in messages if isinstance(m, ChangeBatch)]
    renamed = [at for at, m in enumerate(messages) if isinstance(m, SchemaChange) and m.new_table is not None]
    before = {(m.table.name, m.schema.key) for m in messages[: renamed[0]] if isinstance(m, ChangeBatch)}
    assert before == {("c", ()), ("d", ()), ("u", ("id",))}
    assert set(keys) - before == {("k", ()), ("u", ()), ("c", ("id",)), ("d", ("id",))}


def test_gh_ost_swap_reloads_the_one_table_that_is_selected(log: Log) -> None:
    log.run("CREATE TABLE t (id int primary key)", "CREATE TABLE _t_gho (id bigint primary key, n int)")
    schemas = log.schemas(TableSet(), "t")
    log.here()
    log.run(
        "INSERT INTO t VALUES (1)",
        "INSERT INTO _t_gho VALUES (1, 5)",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "INSERT INTO t VALUES (2, 6)",
    )
    messages = log.read(log.all("t"), schemas)
    assert changes(messages) == [("ALTER_TABLE", "t", True)]
    assert rows(messages, "id") == [("INSERT", 1), ("INSERT", 2)]


def test_gh_ost_swap_in_a_selected_database_is_two_renames(log: Log) -> None:
    log.run("CREATE TABLE t (id int primary key)")
    tables = TableSet(databases=frozenset({log.database}))
    schemas = log.schemas(TableSet(), "t")
    log.here()
    log.run(
        "CREATE TABLE _t_gho (id bigint primary key, n int)",
        "INSERT INTO _t_gho VALUES (1, 5)",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "INSERT INTO t VALUES (2, 6)",
    )
    messages = log.read(tables, schemas)
    renames = [
        (m.table.name, m.new_table.name if m.new_table else "")
        for m in messages
        if isinstance(m, SchemaChange) and m.operation is Ddl.RENAME_TABLE
    ]
    assert renames == [("t", "_t_del"), ("_t_gho", "t")]
    assert not any(reload for *_, reload in changes(messages)[1:])


def test_renames_in_and_out_of_the_selection(log: Log) -> None:
    log.run(
        "CREATE TABLE a (id int primary key)",
        "CREATE TABLE z (id int primary key)",
        "CREATE TABLE b (id int primary key)",
    )
    schemas = log.schemas(TableSet(), "a", "b")
    log.here()
    log.run(
        "RENAME TABLE a TO y",
        "RENAME TABLE z TO a",
        "INSERT INTO a VALUES (1)",
        "RENAME TABLE a TO tmp, b TO a, tmp TO b",
    )
    messages = log.read(log.all("a", "b"), schemas)
    assert changes(messages) == [
        ("DROP_TABLE", "a", False), ("CREATE_TABLE", "a", True), ("ALTER_TABLE", "a", True), ("ALTER_TABLE", "b", True),
    ]  # fmt: skip


def test_create_truncate_drop_in_a_selected_database(log: Log) -> None:
    tables = TableSet(databases=frozenset({log.database}))
    log.here()
    log.run(
        "CREATE TABLE c (id int primary key)", "CREATE TABLE d LIKE c", "CREATE TABLE s AS SELECT 1 AS one",
        "TRUNCATE c",
        "CREATE TABLE IF NOT EXISTS c (x int)", "CREATE OR REPLACE TABLE c (id int primary key, n int)",
        "CREATE SEQUENCE seq", "DO NEXTVAL(seq)", "CREATE VIEW v AS SELECT * FROM c", "DROP TABLE c, d",
        "CREATE TEMPORARY TABLE tt (a int)",
    )  # fmt: skip
    log.run(f"DROP DATABASE {log.database}")
    messages = log.read(tables)
    kinds = [(operation, name) for operation, name, _ in changes(messages)]
    assert ("CREATE_TABLE", "s") in kinds
    assert ("TRUNCATE_TABLE", "c") in kinds or ("CREATE_TABLE", "c") not in kinds
    assert kinds[-2:] == [("DROP_TABLE", "s"), ("DROP_DATABASE", "")]
    assert not [m for m in messages if isinstance(m, TableFailed)]
    assert rows(messages, "one") == [("INSERT", 1)]


def test_partitions_that_vanish_ask_for_a_reload(log: Log) -> None:
    log.run(
        "CREATE TABLE p (id int primary key) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (10), PARTITION b"
        " VALUES LESS THAN (20))"
    )
    schemas = log.schemas(TableSet(), "p")
    log.here()
    log.run(
        "ALTER TABLE p TRUNCATE PARTITION a",
        "ALTER TABLE p DROP PARTITION a",
        "ALTER TABLE p ADD PARTITION (PARTITION c VALUES LESS THAN (30))",
    )
    assert changes(log.read(log.all("p"), schemas)) == [("ALTER_TABLE", "p", True)] * 2


# ---- the place to continue from


def _fails(log: Log, offset: BinlogOffset) -> TidemarkError:
    reader = BinlogReader(log.config, log.options, "me", watermark_table("tidemark"))
    with pytest.raises(TidemarkError) as caught:
        next(m for m in reader.read(offset, TableSet(), {}) if isinstance(m, Heartbeat) and m.source_ts)
    return caught.value


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedMariaDB]:
    server = EmbeddedMariaDB(tmp_path / "own")
    server.start()
    yield server
    server.stop()


def _purge(log: Log, gone: str, upto: str) -> None:
    """The server keeps a file that a reader has just left, or whose transactions are not flushed yet, a moment
    longer.
    """
    for _ in range(100):
        with log.control.cursor() as cursor:
            cursor.execute(f"PURGE BINARY LOGS TO '{upto}'")
            cursor.execute("SHOW BINARY LOGS")
            if gone not in [row[0] for row in cursor.fetchall()]:
                return
        time.sleep(0.1)
    pytest.fail("the server does not purge its log")


def test_purged_replaced_and_restarted_servers_are_told_apart(own_server: EmbeddedMariaDB) -> None:
    log = Log(own_server, "shop")
    log.run("CREATE TABLE a (id int primary key)", "INSERT INTO a VALUES (1)")
    first = current_offset(log.control)
    log.run("INSERT INTO a VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO a VALUES (3)")
    last = current_offset(log.control)
    plain = BinlogOffset(first.file, first.position)
    assert isinstance(_fails(log, BinlogOffset(last.file, last.position + 1_000_000)), SourceReplaced)
    assert isinstance(_fails(log, BinlogOffset("binlog.000999", 4)), SourceReplaced)
    assert isinstance(_fails(log, BinlogOffset(last.file, last.position, "0-1-999999")), SourceReplaced)
    log.run("SET GLOBAL slave_connections_needed_for_purge = 0")
    _purge(log, first.file, last.file)
    assert isinstance(_fails(log, plain), LogPurged)
    assert isinstance(_fails(log, first), LogPurged)
    own_server.restart(signal.SIGKILL)
    log.control = connect(log.config)
    log.run("USE shop", "INSERT INTO a VALUES (4)")
    assert rows(log.read(log.all("a"), log.schemas(TableSet(), "a"), last), "id") == [("INSERT", 4)]
    assert identity(log.control) == "mariadb-1"


def test_a_server_that_goes_down_ends_reading_as_unreachable(own_server: EmbeddedMariaDB) -> None:
    log = Log(own_server, "shop")
    reader = BinlogReader(log.config, log.options, "me", watermark_table("tidemark"))
    messages = reader.read(log.start, TableSet(), {})
    assert isinstance(next(m for m in messages if isinstance(m, Heartbeat)), Heartbeat)
    own_server.stop()
    with pytest.raises(SourceUnreachable):
        list(messages)


def test_heartbeats_come_twice_a_second_and_say_when_the_source_was_quiet(log: Log) -> None:
    reader = BinlogReader(log.config, log.options, "me", watermark_table("tidemark"))
    times, beats = [time.monotonic()], []
    for message in reader.read(current_offset(log.control), TableSet(), {}):
        times.append(time.monotonic())
        if isinstance(message, Heartbeat):
            beats.append(message)
        if len(beats) == 8:
            break
    reader.close()
    assert statistics.median(b - a for a, b in itertools.pairwise(times)) < 0.9  # not each: the machine may be busy
    assert beats[-1].source_ts is not None
    assert beats[-1].offset is not None


def test_floats_are_kept_to_the_bit(log: Log) -> None:
    rng = random.Random(1)
    log.run("CREATE TABLE f (id int primary key, d double)")
    values = [
        v for v in (struct.unpack("<d", rng.randbytes(8))[0] for _ in range(200)) if abs(v) < 1e308 and abs(v) > 1e-300
    ]
    log.here()
    log.run("INSERT INTO f VALUES " + ",".join(f"({n}, {v!r})" for n, v in enumerate(values)))
    assert [row[1] for row in rows(log.read(log.all("f"), log.schemas(TableSet(), "f")), "d")] == values


@pytest.mark.parametrize(
    ("column", "statements", "reloads"),
    [
        (
            "CHAR(20) CHARACTER SET utf8mb4",
            ["CHAR(20) CHARACTER SET koi8u", "CHAR(20) COLLATE utf8mb4_bin"],
            [True, False],
        ),
        ("VARCHAR(20)", ["VARCHAR(2)", "VARCHAR(20)"], [True, False]),
        ("INT", ["TINYINT", "INTEGER"], [True, False]),
        ("INT NULL", ["INT NOT NULL", "INT NULL"], [True, False]),
        ("DECIMAL(10,2)", ["NUMERIC(10)", "DEC(10, 2)"], [True, False]),
        ("ENUM('a','b')", ["ENUM('b')", "ENUM('a','b')"], [True, False]),
        ("VARCHAR(20)", ["VARCHAR(30) NOT NULL DEFAULT ''", "VARCHAR(40)"], [True, False]),
        # nothing is cut, and the catalog shows what the statement says: no row needs to be read again
        ("VARCHAR(20)", ["CHARACTER VARYING(40) COMMENT 'NOT NULL'"], []),
        ("TINYINT UNSIGNED", ["SMALLINT(5) ZEROFILL"], []),
        ("DATETIME", ["DATETIME(6)"], []),
        ("DOUBLE", ["REAL", "DOUBLE PRECISION"], []),
        ("LONGTEXT", ["JSON"], []),
        ("ENUM('a','b')", ["ENUM('a','b','it''s')"], []),
    ],
)
def test_a_value_that_was_cut_is_seen_though_a_later_statement_hides_it_in_the_catalog(
    log: Log, column: str, statements: list[str], reloads: list[bool]
) -> None:
    log.run("SET sql_mode = ''", f"CREATE TABLE t (id INT PRIMARY KEY, c {column})")
    schemas = log.schemas(log.all("t"), "t")
    log.here()
    log.run("INSERT INTO t VALUES (1, 1)", *(f"ALTER TABLE t MODIFY c {definition}" for definition in statements))
    found = [one.reload for one in log.read(log.all("t"), schemas) if isinstance(one, SchemaChange)]
    assert any(found) == any(reloads)
    assert found[:1] == reloads[:1] or not reloads


def test_a_table_made_like_one_whose_columns_nobody_knows_has_them_all(log: Log) -> None:
    """When the log is read, the first table has another's name, and none of the columns that it was given."""
    log.run("CREATE TABLE t (id INT PRIMARY KEY)")
    schemas = log.schemas(log.all("t"), "t")
    log.here()
    log.run("ALTER TABLE t ADD COLUMN c INT", "CREATE TABLE u LIKE t", "ALTER TABLE u ADD COLUMN d INT")
    log.run("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)")
    found = [one for one in log.read(log.all("t", "u"), schemas) if isinstance(one, SchemaChange)]
    assert [one.schema.names for one in found if one.table.name == "u" and one.schema][-1] == ("id", "c", "d")


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_a_log_is_read_from_before_its_checksums_were_switched_off(request: pytest.FixtureRequest, server: str) -> None:
    log = Log(request.getfixturevalue(server), "log_checksums")
    log.run("SET GLOBAL binlog_checksum = 'CRC32'", "CREATE TABLE t (id INT PRIMARY KEY)")
    log.here()
    log.run("INSERT INTO t VALUES (1)", "SET GLOBAL binlog_checksum = 'NONE'", "INSERT INTO t VALUES (2)")
    try:
        found = log.read(log.all("t"), log.schemas(log.all("t"), "t"))
    finally:
        log.run("SET GLOBAL binlog_checksum = 'CRC32'", "DROP DATABASE log_checksums")
        log.control.close()
    assert rows(found, "id") == [("INSERT", 1), ("INSERT", 2)]
