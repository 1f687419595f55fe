"""Log files written by MySQL servers 5.5, 5.7 and 8.0: no such server can be had here, so these are the proof."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from replicator.errors import LogCorrupt
from replicator.model.change import ChangeBatch, Commit, LogMessage
from replicator.sources.mysql.stream.file_reader import read_events, read_file
from replicator.sources.mysql.wire import events as e

FILES = ("aurora-padding", "checksum-crc32", "checksum-none", "compressed", "sakila.gz")


@pytest.fixture
def binlogs(shared_data: Path) -> Path:
    return shared_data / "binlogs"


def _rows(messages: Iterator[LogMessage], table: str) -> list[tuple[Any, ...]]:
    return [
        tuple(value for key, value in row.items() if key.startswith("@"))
        for message in messages
        if isinstance(message, ChangeBatch) and message.table.name == table
        for row in message.data.to_pylist()
    ]


@pytest.mark.parametrize("name", FILES)
def test_every_byte_of_every_file_belongs_to_an_event_that_holds(binlogs: Path, name: str) -> None:
    path = binlogs / f"mysql-bin.{name}"
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    last = list(read_events(path))[-1]
    assert last.end == len(data) or last.type == e.ROTATE
    list(read_file(path))


def test_sakila_has_the_rows_that_sakila_has(binlogs: Path) -> None:
    counts: Counter[str] = Counter()
    for message in read_file(binlogs / "mysql-bin.sakila.gz"):
        if isinstance(message, ChangeBatch):
            counts[message.table.name] += message.data.num_rows
    assert counts == {
        "actor": 200, "address": 603, "category": 16, "city": 600, "country": 109, "customer": 599, "film": 1000,
        "film_actor": 5462, "film_category": 1000, "film_text": 1000, "inventory": 4581, "language": 6,
        "payment": 16049,
        "rental": 16044, "staff": 2, "store": 2,
    }  # fmt: skip


def test_sakilas_payments_add_up(binlogs: Path) -> None:
    payments = _rows(read_file(binlogs / "mysql-bin.sakila.gz"), "payment")
    assert sum(row[4] for row in payments) == Decimal("67416.51")


def test_a_zstd_payload_of_mysql_8_is_read_whole(binlogs: Path) -> None:
    messages = list(read_file(binlogs / "mysql-bin.compressed"))
    (batch,) = [m for m in messages if isinstance(m, ChangeBatch)]
    (row,) = batch.data.to_pylist()
    assert (row["_operation"], row["@2"], row["_before_@5"], row["@5"]) == (
        "UPDATE", "Once Upon a Time in the West", "Western", "Western|Action",
    )  # fmt: skip
    assert row["_commit_ts"].microsecond == 223033
    assert isinstance(messages[-1], Commit)


@pytest.mark.parametrize("name", ["checksum-crc32", "checksum-none", "sakila.gz"])
def test_values_are_those_of_the_library_where_the_library_is_right(binlogs: Path, tmp_path: Path, name: str) -> None:
    path = binlogs / f"mysql-bin.{name}"
    theirs = list(_library_rows(path))
    ours: list[tuple[Any, ...]] = []
    for message in read_file(path):
        if isinstance(message, ChangeBatch):
            ours += [
                (row["_sequence_num"], row["_operation"], *(v for k, v in row.items() if k.startswith("@")))
                for row in message.data.to_pylist()
            ]
    ours = [row[1:] for row in sorted(ours, key=lambda row: row[0])]
    assert len(ours) == len(theirs) > 30
    for mine, other in zip(ours, theirs, strict=True):
        # The library makes None of an ENUM and of a SET whose labels the log does not have: there it is not right.
        known = [place for place, value in enumerate(other) if value is not None or mine[place] is None]
        assert len(known) >= len(mine) - 2
        assert [_plain(mine[place]) for place in known] == [_plain(other[place]) for place in known]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "ignore")
    if hasattr(value, "timestamp"):
        return value.replace(tzinfo=None)
    if isinstance(value, set):
        return "set"
    return value


def _library_rows(path: Path) -> Iterator[tuple[Any, ...]]:
    """Rows as mysql-replication decodes them, without a server."""
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication.packet import BinLogPacketWrapper
    from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

    class Control:
        charset = "utf8"

        def _get_dbms(self) -> str:
            return "mysql"

    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    at, maps, version = 4, {}, (5, 7, 20)
    lengths: Any = None
    allowed = frozenset({TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent})
    checksum = "crc32" in path.name
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        raw = b"\0" + data[at : at + size]
        at += size
        packet = MysqlPacket(raw, "utf8")
        wrapper = _wrap(BinLogPacketWrapper, packet, maps, Control(), version, checksum, allowed, lengths)
        event = wrapper.event
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.get_table()
        elif event is not None:
            kind = {WriteRowsEvent: "INSERT", UpdateRowsEvent: "UPDATE", DeleteRowsEvent: "DELETE"}[type(event)]
            for row in event.rows:
                yield (kind, *(row.get("values") or row["after_values"]).values())


def _wrap(
    wrapper: Any, packet: Any, maps: Any, control: Any, version: Any, checksum: bool, allowed: Any, lengths: Any
) -> Any:
    return wrapper(
        packet,
        maps,
        control,
        version,
        checksum,
        allowed,
        None,
        None,
        None,
        None,
        False,
        True,
        False,
        False,
        False,
        True,
        lengths,
    )


def test_a_file_that_was_cut_or_changed_is_corrupt(binlogs: Path, tmp_path: Path) -> None:
    data = (binlogs / "mysql-bin.checksum-crc32").read_bytes()
    cut, changed = tmp_path / "cut.000001", tmp_path / "changed.000001"
    cut.write_bytes(data[:-7])
    changed.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    for path in (cut, changed):
        with pytest.raises(LogCorrupt):
            list(read_file(path))
    (tmp_path / "none").write_bytes(b"hello, world")
    with pytest.raises(LogCorrupt):
        list(read_file(tmp_path / "none"))
