"""The smallest inputs that the fuzzing has found: each once made a hang, a crash, gigabytes, another exception or a
wrong value.
"""

from __future__ import annotations

import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from replicator.errors import ConfigurationError, LogCorrupt, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import BOOLEAN, STRING, TIMESTAMP_NTZ, decimal
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.ddl import parser as ddl
from replicator.sources.mysql.offset import GtidSet, parse_offset
from replicator.sources.mysql.rows import jsonb
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn, parse_table_map
from replicator.sources.mysql.rows.values import converter
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.bounded_slices import inflate
from replicator.sources.mysql.wire.events import BinlogEvent, EventParser
from replicator.sources.mysql.wire.transaction_payload import open_payload
from replicator.state.chunks import parse_mark
from tests.golden.mysql_log import LogFile, mysql_log, table_map
from tests.property.mutations import Log

FOUR_GIB = b"\xff\xff\xff\xff"


def _event(kind: int, body: bytes) -> BinlogEvent:
    return BinlogEvent(kind, 0, 1, 0, "b.000001", 4, 100, body)


@pytest.mark.parametrize(
    "read",
    [
        lambda: e.parse_previous_gtids(
            _event(e.PREVIOUS_GTIDS, b"\xff" * 6 + b"\0\0")
        ),  # 2^48 sources: looped for ever
        lambda: e.parse_gtid_list(
            _event(e.GTID_LIST, b"\2\0\0\0" + bytes(16))
        ),  # two GTIDs said, one there: read as one
        lambda: jsonb.to_text(b"\3" + FOUR_GIB + b"\x10\0\0\0" + bytes(8)),  # 2^32 values: looped for minutes
        lambda: jsonb.to_text(b"\0" + b"\xff\xff\4\0"),  # 65535 keys in four bytes
        lambda: jsonb.to_text(b"\2" + b"\1\0\7\0" + b"\2\0\0"),  # an array that holds itself: RecursionError
        lambda: jsonb.to_text(b"\x0b" + struct.pack("<d", float("inf"))),  # read as 0.0
        lambda: jsonb.to_text(b"\x04\x07"),  # a literal that is none: KeyError
        lambda: inflate(b"\x84" + FOUR_GIB + b"x"),  # four gigabytes made before a byte was looked at
        lambda: list(
            open_payload(_event(e.TRANSACTION_PAYLOAD, b"\0" + e.HEADER.pack(0, 2, 1, 2**32 - 1, 0, 0)))
        ),  # the same
        lambda: list(open_payload(_event(e.TRANSACTION_PAYLOAD, b"\2\1\0\0" + b"\x28\xb5\x2f\xfd"))),  # OSError of zstd
        lambda: parse_table_map(table_map()[:-1]),  # the last field one byte short: read with another visibility
        lambda: parse_table_map(b"\7" + bytes(7) + b"\1d\0\1t\0\1\xf6\2\1\2\0"),  # decimal(1,2): ValueError later on
    ],
)
def test_a_lie_about_a_size_is_found_at_once_and_costs_nothing(read: Callable[[], object]) -> None:
    parser = EventParser("b.000001")
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(LogCorrupt, match=r"b\.000001:4"), parser.guard():
            read()
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("log", "column", "data"),
    [
        (LogColumn(t.NEWDECIMAL, 9 << 8, True, "c"), Column("c", decimal(9, 0), True, "decimal(9,0)"),
            b"\xbb\xff\xff\xff"),
        (LogColumn(t.DATETIME2, 0, True, "c"), Column("c", TIMESTAMP_NTZ, True, "datetime"),
            b"\x99\xb2\xc3\x80\x00"[:2] + b"\xff\xff\xff"),
        (LogColumn(t.BIT, 1, True, "c"), Column("c", BOOLEAN, True, "bit(1)"), b"\2"),
        (LogColumn(t.SET, 1, True, "c", charset=45, labels=(b"a",)), Column("c", STRING, True, "set('a')"), b"\2"),
        (LogColumn(t.ENUM, 1, True, "c", charset=45, labels=(b"a",)), Column("c", STRING, True, "enum('a')"), b"\2"),
        (LogColumn(t.TIME2, 0, True, "c"), Column("c", STRING, True, "time"), b"\xbf\xff\xff"),
    ],
)  # fmt: skip
def test_bytes_that_no_server_writes_stop_their_table_and_become_no_value(
    log: LogColumn, column: Column, data: bytes
) -> None:
    with pytest.raises(ValueDoesNotFit, match="Column c"):
        converter(log, column, ReadOptions())(data)


def test_events_twice_out_of_order_or_before_the_format_description_are_found() -> None:
    events = Log(mysql_log(), checksum=True).events
    parser = EventParser("b.000001")
    with pytest.raises(LogCorrupt, match="before the format description"):
        parser.parse(events[1])
    for raw in events[:4]:
        parser.parse(raw)
    with pytest.raises(LogCorrupt, match="duplicated"):  # was taken for one behind four gibibytes more
        parser.parse(events[3])


def test_a_format_description_that_no_longer_names_its_checksums_is_found() -> None:
    data = bytearray(LogFile().data)
    data[-5] = 0  # the algorithm: all checksums of the file would go unchecked
    with pytest.raises(LogCorrupt, match="checksum of the format description"):
        EventParser("b.000001", whole=True).parse(bytes(data[4:]))


def test_a_gtid_set_with_many_gaps_is_read_in_linear_time() -> None:
    began = time.process_time()
    GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:" + ":".join(str(2 * n + 1) for n in range(50_000)))
    assert time.process_time() - began < 2


def test_words_of_others_are_no_marks_and_no_offsets() -> None:
    assert parse_mark("L:²:1:a") is None  # ValueError
    with pytest.raises(ConfigurationError):
        parse_offset({"kind": "mysql", "file": "b.1", "position": 4, "gtid": "x"})  # a ValueError once reading began


def test_parentheses_that_are_never_closed_are_no_recursion() -> None:
    assert isinstance(ddl.parse("ALTER TABLE a ADD " + "(" * 5000, "db"), ddl.AlterTable)
