"""Where reading can resume: behind transactions, and behind what is none."""

from __future__ import annotations

import struct

import pytest

from replicator.model.change import Commit
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent

ONE, TWO, THREE = "bin.000001", "bin.000002", "bin.000003"


class Log:
    """An interpreter that stands at 500 in the second file."""

    def __init__(self) -> None:
        tables, options = TableSet(), ReadOptions()
        start = BinlogOffset(TWO, 500, "0-1-7")
        self.inner = TransactionAssembler(tables, LogSchemas(tables, {}, options, None), options, start)

    def feed(self, kind: int, body: bytes = b"", *, file: str = TWO, end: int = 600, flags: int = 0) -> None:
        self.inner.feed(BinlogEvent(kind, 1, 1, flags, file, end - 50, end, body))

    def rotate(self, file: str, position: int, *, artificial: bool) -> None:
        body = position.to_bytes(8, "little") + file.encode()
        self.feed(e.ROTATE, body, flags=e.ARTIFICIAL if artificial else 0)

    def begin(self, number: int) -> None:
        self.feed(e.MARIADB_GTID, struct.pack("<QIB", number, 0, 0) + bytes(6))

    @property
    def at(self) -> tuple[str, int, str]:
        boundary = self.inner.boundary
        return boundary.file, boundary.position, boundary.gtid


@pytest.mark.parametrize("artificial", [False, True])
def test_the_next_file_is_entered_whether_the_log_or_only_the_server_says_so(artificial: bool) -> None:
    log = Log()
    log.rotate(THREE, 4, artificial=artificial)
    assert log.at == (THREE, 4, "0-1-7")
    log.inner.settle()
    assert [(str(m.offset), m.commit_ts) for m in log.inner.out if isinstance(m, Commit)] == [(f"{THREE}:4", None)]


def test_a_stream_by_gtid_that_begins_with_older_places_moves_nothing_back() -> None:
    log = Log()
    log.rotate(ONE, 4, artificial=True)
    log.rotate(TWO, 4, artificial=False)
    log.inner.passed(TWO, 499)
    assert log.at == (TWO, 500, "0-1-7")
    log.inner.passed(TWO, 501)
    assert log.at == (TWO, 501, "0-1-7")


def test_no_place_inside_a_transaction_is_one_to_resume_at() -> None:
    log = Log()
    log.begin(8)
    log.inner.passed(TWO, 700)
    log.rotate(THREE, 4, artificial=True)
    assert log.at == (TWO, 500, "0-1-7")
    log.feed(e.XID, bytes(8), end=800)
    assert log.at == (TWO, 800, "0-1-8")


def test_the_gtid_of_a_transaction_that_a_crash_cut_off_is_not_executed() -> None:
    """The server gives it to the next transaction: resuming behind it would lose that one."""
    log = Log()
    log.begin(8)
    log.rotate(THREE, 4, artificial=True)
    log.feed(e.FORMAT_DESCRIPTION, b"\4\0" + b"11.4.5-MariaDB".ljust(50, b"\0") + bytes(10), file=THREE, end=256)
    assert log.at == (THREE, 256, "0-1-7")
    log.begin(8)
    log.feed(e.XID, bytes(8), file=THREE, end=400)
    assert log.at == (THREE, 400, "0-1-8")


def test_offsets_of_files_with_one_number_and_two_names_have_an_order() -> None:
    one, other = BinlogOffset("a.000001", 9), BinlogOffset("b.000001", 4)
    assert one < other
    assert not other <= one
