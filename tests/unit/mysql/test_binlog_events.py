"""Events from bytes made by hand, after the layouts of the two servers' sources."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

from replicator.errors import (
    LogCorrupt,
    LogPurged,
    RowImageIncomplete,
    SourceError,
    UnsupportedCharset,
    ValueDoesNotFit,
)
from replicator.model.change import ChangeBatch, Commit, SchemaChange, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import Column
from replicator.model.table_set import EXACT_NAMES, TableSet
from replicator.model.types import STRING as STRING_TYPE
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.charsets import charset_name, decoder
from replicator.sources.mysql.offset import BinlogOffset, parse_offset
from replicator.sources.mysql.rows import jsonb
from replicator.sources.mysql.rows.columns import Cells, ColumnArrays
from replicator.sources.mysql.rows.table_map import (
    BLOB,
    ENUM,
    GEOMETRY,
    JSON,
    LONG,
    LONGLONG,
    SET,
    STRING,
    VARCHAR,
    LogColumn,
    parse_table_map,
)
from replicator.sources.mysql.rows.values import converter
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.stream.xa_transactions import PreparedTransactions
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.bounded_slices import inflate
from replicator.sources.mysql.wire.events import BinlogEvent, EventParser
from replicator.sources.mysql.wire.transaction_payload import open_payload

UUID = bytes.fromhex("3e11fa4771ca11e19e33c80aa9429562")
UUID_TEXT = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def raw(
    kind: int, body: bytes, end: int = 0, *, flags: int = 0, checksum: bool = False, when: int = 1_700_000_000
) -> bytes:
    size = 19 + len(body) + 4 * checksum
    data = e.HEADER.pack(when, kind, 1, size, end, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little") if checksum else data


def description(version: bytes = b"8.4.0", algorithm: int = 1) -> bytes:
    body = struct.pack("<H50sIB", 4, version, 0, 19) + bytes(40) + bytes([algorithm])
    return raw(e.FORMAT_DESCRIPTION, body, checksum=True)


def event(kind: int, body: bytes, *, start: int = 100, end: int = 200) -> BinlogEvent:
    return BinlogEvent(kind, 1_700_000_000, 1, 0, "bin.000001", start, end, body)


def test_a_checksum_that_does_not_hold_is_corruption() -> None:
    parser = EventParser("bin.000001")
    parser.parse(description())
    good = raw(e.XID, bytes(8), 300, checksum=True)
    assert parser.parse(good).end == 300
    with pytest.raises(LogCorrupt):
        parser.parse(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(LogCorrupt):
        parser.parse(good[:-3])


def test_a_log_without_checksums_is_read_as_such() -> None:
    parser = EventParser("bin.000001")
    parser.parse(description(algorithm=0))
    assert parser.parse(raw(e.XID, bytes(8), 300)).body == bytes(8)
    old = EventParser("bin.000001")
    old.parse(raw(e.FORMAT_DESCRIPTION, struct.pack("<H50sIB", 4, b"5.5.27-log", 0, 19) + bytes(27)))
    assert not old.checksum


def test_positions_go_on_past_four_gibibytes_and_where_the_server_leaves_them_out() -> None:
    parser = EventParser("bin.000001", 4)
    parser.parse(description(algorithm=0))
    parser.parse(raw(e.ROTATE, (2**32 - 50).to_bytes(8, "little") + b"bin.000002", when=0))
    assert parser.file == "bin.000002"
    parser.parse(description(algorithm=0))
    assert parser.parse(raw(e.XID, bytes(8), 2**32 - 10)).end == 2**32 - 10
    assert parser.parse(raw(e.XID, bytes(8), 17)).end == 2**32 + 17
    silent = parser.parse(raw(e.XID, bytes(8), 0))
    assert (silent.start, silent.end) == (2**32 + 17, 2**32 + 44)


def varint(value: int) -> bytes:
    """MySQL's serialization library: the trailing ones of the first byte count the further bytes."""
    for size in range(1, 9):
        if value < 1 << 7 * size:
            return (value << size | (1 << size - 1) - 1).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def test_gtids_of_every_kind_name_their_transaction() -> None:
    stamp = 1_700_000_000_123_456
    body = bytes([1]) + UUID + (5).to_bytes(8, "little") + b"\x02" + bytes(16) + stamp.to_bytes(7, "little")
    assert e.parse_gtid(event(e.GTID, body)) == e.Gtid(f"{UUID_TEXT}:5", stamp)
    assert e.parse_gtid(event(e.ANONYMOUS_GTID, body)).text == ""
    assert e.parse_gtid(event(e.GTID, body[:25])).commit_us == 1_700_000_000_000_000
    mariadb = struct.pack("<QIB", 100, 7, 1)
    assert e.parse_gtid(event(e.MARIADB_GTID, mariadb)) == e.Gtid("7-1-100", 1_700_000_000_000_000, standalone=True)
    assert not any(e.parse_gtid(event(e.MARIADB_GTID, mariadb + bytes(6)))[3:])
    xid = struct.pack("<IBB", 1, 3, 2) + b"abcde"
    for flags, between in ((1, b""), (3, bytes(8)), (65, xid), (131, bytes(8) + xid)):
        for more, idle in ((0, False), (2, True), (4, False), (8, True)):
            body = struct.pack("<QIB", 100, 7, flags) + between + bytes([more]) + bytes(8)
            assert e.parse_gtid(event(e.MARIADB_GTID, body)).idle == idle
    fields = varint(0) + varint(1) + varint(1) + b"".join(map(varint, UUID)) + varint(2) + varint(300 << 1)
    fields += (
        varint(3) + varint(4) + b"blue" + varint(4) + varint(0) + varint(5) + varint(2) + varint(6) + varint(stamp)
    )
    tagged = b"\x02" + varint(len(fields) + 4) + varint(8) + fields
    assert e.parse_gtid(event(e.TAGGED_GTID, tagged)) == e.Gtid(f"{UUID_TEXT}:blue:300", stamp)


def test_the_clients_character_set_is_found_behind_collations_of_the_statement() -> None:
    """MariaDB 11.4 writes them before it."""
    for collations in (b"", b"\x83\0", b"\x83\2" + bytes(8)):
        status = b"\0" + bytes(4) + b"\1" + bytes(8) + b"\6\3std" + collations + b"\4\x0d\0\x0d\0\x2d\0"
        body = bytes(8) + struct.pack("<BHH", 1, 0, len(status)) + status + b"d\0TRUNCATE t"
        assert e.parse_query(event(e.QUERY, body)).charset == 13


def test_previous_gtids_are_read_with_and_without_tags() -> None:
    interval = struct.pack("<QQQ", 1, 1, 6)
    assert e.parse_previous_gtids(event(e.PREVIOUS_GTIDS, struct.pack("<Q", 1) + UUID + interval)) == f"{UUID_TEXT}:1-5"
    head = ((1 << 56) | (2 << 8) | 1).to_bytes(8, "little")
    tagged = head + UUID + varint(0) + interval + UUID + varint(4) + b"blue" + interval
    assert e.parse_previous_gtids(event(e.PREVIOUS_GTIDS, tagged)) == f"{UUID_TEXT}:1-5,{UUID_TEXT}:blue:1-5"


def test_mariadbs_compressed_parts_are_inflated() -> None:
    text = b"INSERT " * 100
    packed = b"\x82" + len(text).to_bytes(2, "big") + zlib.compress(text)
    assert inflate(packed) == text
    with pytest.raises(IndexError):
        inflate(b"\x82" + (3).to_bytes(2, "big") + zlib.compress(text))


@pytest.mark.parametrize("compressed", [True, False])
def test_a_transaction_payload_is_opened(compressed: bool) -> None:
    inner = raw(e.XID, bytes(8)) + raw(e.QUERY, b"x" * 30)
    data = pa.compress(inner, codec="zstd", asbytes=True) if compressed else inner
    head = bytes([2, 1, 0 if compressed else 255, 3, 1, len(inner), 1, 1, len(data), 0])
    head = head if compressed else bytes([2, 3, 252, 255, 0, 1, 1, len(data), 0])
    found = list(open_payload(event(e.TRANSACTION_PAYLOAD, head + data)))
    assert [(x.type, x.start, len(x.body)) for x in found] == [(e.XID, 100, 8), (e.QUERY, 100, 30)]


def table_map(types: bytes, metadata: bytes, optional: bytes = b"", table: bytes = b"t", number: int = 7) -> bytes:
    count = len(types)
    names = b"\x01d\0" + bytes([len(table)]) + table + b"\0"
    nulls = bytes([0xFF] * ((count + 7) // 8))
    return (
        number.to_bytes(6, "little")
        + b"\1\0"
        + names
        + bytes([count])
        + types
        + bytes([len(metadata)])
        + metadata
        + nulls
        + optional
    )


def field(kind: int, data: bytes) -> bytes:
    return bytes([kind, len(data)]) + data


def names(*texts: bytes) -> bytes:
    return field(4, b"".join(bytes([len(text)]) + text for text in texts))


def test_unknown_optional_metadata_is_skipped() -> None:
    found = parse_table_map(
        table_map(bytes([LONG]), b"", field(99, b"abc") + names(b"id") + field(13, b"\1\4") + field(1, b"\x80"))
    )
    assert found.columns[0].name == "id"
    assert found.columns[0].unsigned is True
    assert found.table == TableId("d", "t")


def test_labels_and_charsets_go_to_the_columns_they_belong_to() -> None:
    types = bytes([STRING, GEOMETRY, STRING, VARCHAR, BLOB])
    metadata = bytes([ENUM, 1, 4, SET, 1]) + (40).to_bytes(2, "little") + b"\2"
    optional = (
        names(b"e", b"g", b"s", b"v", b"b") + field(6, b"\2\1a\1b") + field(5, b"\1\1x") + field(11, bytes([8, 45]))
    )
    mysql = parse_table_map(table_map(types, metadata, optional + field(2, bytes([45, 1, 63])) + field(8, b"\3\0")))
    assert [c.charset for c in mysql.columns] == [8, None, 45, 45, 63]
    assert [c.labels for c in mysql.columns][::2] == [(b"a", b"b"), (b"x",), ()]
    assert mysql.key == (3, 0)
    mariadb = parse_table_map(table_map(types, metadata, optional + field(3, bytes([63, 45, 8]))), mariadb=True)
    assert [c.charset for c in mariadb.columns] == [8, 63, 45, 45, 8]


def test_hidden_hash_columns_are_those_that_mariadb_put_behind_all_others() -> None:
    types = bytes([LONGLONG, LONG, LONGLONG])
    body = table_map(types, b"", names(b"DB_ROW_HASH_2", b"id", b"DB_ROW_HASH_1"))
    assert [c.hidden for c in parse_table_map(body, mariadb=True).columns] == [False, False, True]
    assert not any(c.hidden for c in parse_table_map(body).columns)


def test_text_that_is_no_unicode_stops_its_table_only() -> None:
    log = LogColumn(VARCHAR, 40, nullable=True, name="v", charset=35)
    column = ColumnArrays(log, Column("v", STRING_TYPE, nullable=True, source_type="varchar(10)"), ReadOptions())
    cells = Cells(np.array([0xDF, 0x84], np.uint8), np.array([0]), np.array([2]), np.array([0]))
    with pytest.raises(ValueDoesNotFit, match="v \\(varchar\\(10\\)\\) contains text that is not valid Unicode"):
        column.convert(cells)


def test_no_comma_follows_an_empty_label_of_a_set() -> None:
    log = LogColumn(SET, 1, nullable=True, name="s", charset=45, labels=(b"", b"a", b"b"))
    members = converter(log, Column("s", STRING_TYPE, nullable=True, source_type="set('','a','b')"), ReadOptions())
    assert [members(bytes([bits])) for bits in range(8)] == ["", "", "a", "a", "b", "b", "a,b", "a,b"]


class Machine:
    """An interpreter over table d.t (id INT, j JSON) without a catalog."""

    def __init__(self) -> None:
        tables = TableSet(tables=frozenset({TableId("d", "t")}))
        options = ReadOptions()
        self.inner = TransactionAssembler(
            tables, LogSchemas(tables, {}, options, None), options, BinlogOffset("bin.000001", 4)
        )
        self.map = table_map(bytes([LONG, JSON]), b"\4", names(b"id", b"j"))

    def feed(self, kind: int, body: bytes = b"") -> None:
        self.inner.feed(event(kind, body))

    def query(self, sql: bytes) -> None:
        self.feed(e.QUERY, bytes(8) + bytes([1, 0, 0, 0, 0]) + b"d\0" + sql)

    def insert(self, number: int) -> None:
        self.feed(e.TABLE_MAP, self.map)
        self.feed(e.WRITE_V2, (7).to_bytes(6, "little") + b"\1\0\2\0\2\xff\2" + number.to_bytes(4, "little"))

    def ids(self) -> list[int]:
        self.inner.settle()
        return [n for m in self.inner.out if isinstance(m, ChangeBatch) for n in m.data.column("id").to_pylist()]


def test_a_rollback_in_the_log_takes_its_rows_back() -> None:
    machine = Machine()
    for statements in ((b"COMMIT", 1), (b"ROLLBACK", 2), (b"COMMIT", 3)):
        machine.query(b"BEGIN")
        machine.insert(statements[1])
        machine.query(statements[0])
    assert machine.ids() == [1, 3]
    (batch,) = [m for m in machine.inner.out if isinstance(m, ChangeBatch)]
    assert batch.data.column(0).to_pylist() == [1, 2]  # 0 was the table's creation


def test_a_rollback_of_rows_that_are_gone_already_asks_for_a_reload() -> None:
    machine = Machine()
    machine.query(b"BEGIN")
    machine.insert(1)
    machine.inner.flush()
    machine.insert(2)
    machine.query(b"ROLLBACK")
    assert machine.ids() == [1]
    assert [m.reload for m in machine.inner.out if isinstance(m, SchemaChange)] == [False, True]


def test_a_transaction_that_a_crash_cut_off_did_not_happen() -> None:
    machine = Machine()
    machine.query(b"BEGIN")
    machine.insert(1)
    machine.feed(e.FORMAT_DESCRIPTION, bytes(60))
    machine.query(b"BEGIN")
    machine.insert(2)
    machine.feed(e.XID, bytes(8))
    assert machine.ids() == [2]


def prepared_xa(machine: Machine, number: int) -> None:
    machine.query(b"XA START X'61',X'',1")
    machine.insert(number)
    machine.query(b"XA END X'61',X'',1")
    machine.feed(e.XA_PREPARE, struct.pack("<?III", False, 1, 1, 0) + b"a")


def test_reading_goes_on_beside_a_prepared_transaction_that_its_offset_names() -> None:
    machine = Machine()
    prepared_xa(machine, 1)
    machine.query(b"BEGIN")
    machine.insert(2)
    machine.feed(e.XID, bytes(8))
    assert machine.ids() == [2]
    (commit,) = [m for m in machine.inner.out if isinstance(m, Commit)]
    offset = commit.offset
    assert isinstance(offset, BinlogOffset)
    assert [(one.xid, one.tables) for one in offset.prepared] == [("X'61',X'',1", (TableId("d", "t"),))]
    assert parse_offset(json.loads(json.dumps(offset.to_dict()))).prepared == offset.prepared
    machine.query(b"XA COMMIT X'61',X'',1")
    assert machine.ids() == [2, 1]
    assert machine.inner.boundary.prepared == ()


def test_a_commit_of_what_was_prepared_before_reading_began_asks_for_reloads() -> None:
    machine = Machine()
    machine.query(b"BEGIN")
    machine.insert(1)
    machine.feed(e.XID, bytes(8))
    machine.query(b"XA COMMIT X'62',X'',1")
    assert [(m.table.name, m.reload) for m in machine.inner.out if isinstance(m, SchemaChange)][1:] == [("t", True)]


def test_a_prepared_transaction_too_large_to_wait_asks_for_a_reload_when_it_is_committed() -> None:
    machine = Machine()
    machine.query(b"BEGIN")
    machine.insert(1)
    machine.feed(e.XID, bytes(8))
    machine.inner.xa = PreparedTransactions(TableSet(tables=frozenset({TableId("d", "t")})), EXACT_NAMES, 10, ())
    prepared_xa(machine, 2)
    machine.query(b"XA COMMIT X'61',X'',1")
    assert machine.ids() == [1]
    assert [(m.table.name, m.reload) for m in machine.inner.out if isinstance(m, SchemaChange)][1:] == [("t", True)]


def test_lost_events_and_unknown_events_stop_reading() -> None:
    machine = Machine()
    with pytest.raises(LogPurged, match="changes are missing in its log"):  # only reading all tables again mends that
        machine.feed(e.INCIDENT, b"\1\0")
    with pytest.raises(SourceError):
        machine.feed(99)
    machine.inner.feed(BinlogEvent(100, 0, 1, e.IGNORABLE_FLAG, "bin.000001", 0, 0, b"*"))  # Aurora's padding


JSON_A = bytes.fromhex("00010007000b000100 05 0100 61".replace(" ", ""))  # {"a": 1}


def partial(diffs: bytes, before: bytes = JSON_A) -> bytes:
    row = b"\0" + (1).to_bytes(4, "little") + len(before).to_bytes(4, "little") + before
    after = b"\1\1" + b"\0" + (1).to_bytes(4, "little") + len(diffs).to_bytes(4, "little") + diffs
    return (7).to_bytes(6, "little") + b"\1\0\2\0\2\xff\xff" + row + after


def diff(operation: int, path: bytes, value: bytes = b"") -> bytes:
    return bytes([operation, len(path)]) + path + (bytes([len(value)]) + value if value else b"")


def test_partial_json_updates_are_applied_to_the_image_before() -> None:
    machine = Machine()
    machine.feed(e.TABLE_MAP, machine.map)
    two, three = b"\x05\2\0", b"\x05\3\0"
    machine.feed(e.PARTIAL_UPDATE, partial(diff(0, b"$.a", two) + diff(1, b'$."b c"', three)))
    machine.feed(e.PARTIAL_UPDATE, partial(diff(2, b"$.a")))
    machine.inner.settle()
    (batch,) = [m for m in machine.inner.out if isinstance(m, ChangeBatch)]
    assert batch.data.column("_before_j").to_pylist() == ['{"a": 1}'] * 2
    assert batch.data.column("j").to_pylist() == ['{"a": 2, "b c": 3}', "{}"]


def test_a_partial_json_update_that_does_not_fit_fails_the_table() -> None:
    machine = Machine()
    machine.feed(e.TABLE_MAP, machine.map)
    machine.feed(e.PARTIAL_UPDATE, partial(diff(2, b"$.zzz")))
    (failed,) = [m for m in machine.inner.out if isinstance(m, TableFailed)]
    assert isinstance(failed.error, RowImageIncomplete)
    assert failed.error.remedy.startswith("SET GLOBAL binlog_row_image = 'FULL';")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (JSON_A, '{"a": 1}'),
        (b"", "null"),
        (b"\x04\0", "null"),
        (b"\x04\1", "true"),
        (b'\x0c\x05a"\n\x01\\', '"a\\"\\n\\u0001\\\\"'),
        (b"\x0b" + struct.pack("<d", 1.0), "1.0"),
        (b"\x0b" + struct.pack("<d", 1e15), "1e15"),
        (b"\x0b" + struct.pack("<d", 1e-16), "1e-16"),
        (b"\x0a" + (2**64 - 1).to_bytes(8, "little"), str(2**64 - 1)),
        (b"\x0f\xf6\x04\x03\x02\x81\x05", "1.05"),
        (b"\x0f\x0f\x02\x00\x01", '"base64:type15:AAE="'),
        (b"\x0f\x0c\x08" + ((((2020 * 13 + 1) << 5 | 2) << 17 | 3 << 12 | 4 << 6 | 5) << 24 | 6).to_bytes(8, "little"),
         '"2020-01-02 03:04:05.000006"'),
        (b"\x0f\x0b\x08" + (-((1 << 12 | 2 << 6 | 3) << 24 | 4)).to_bytes(8, "little", signed=True),
            '"-01:02:03.000004"'),
        (b"\x02\x02\x00\x0a\x00\x05\x01\x00\x05\x02\x00", "[1, 2]"),
    ],
)  # fmt: skip
def test_binary_json_prints_as_the_server_prints_it(data: bytes, text: str) -> None:
    assert jsonb.to_text(data) == text


def test_character_sets_are_decoded_like_the_server_or_refused() -> None:
    assert decoder("latin1")(b"\x80\x81\xe9") == "€\x81é"
    assert decoder("cp1256")(b"\x8a") == "?"
    assert decoder("swe7")(b"[\\") == "ÄÖ"
    assert decoder("sjis")(b"\x81\x5f") == "\\"
    assert decoder("ucs2")(b"\xd8\x3d\xde\x00") == "\ud83d\ude00"  # halves, which become no UTF-8
    assert decoder("utf16")(b"\xd8\x3d\xde\x00") == "😀"
    assert decoder("gbk")(b"@\xa1\x40@") == decoder("sjis")(b"@\x81\xad@") == "@?@"
    assert [charset_name(i) for i in (8, 45, 255, 2048, 2304, 3200)] == [
        "latin1",
        "utf8mb4",
        "utf8mb4",
        "utf8mb3",
        "utf8mb4",
        "utf32",
    ]
    for unknown in (9999, 0):
        with pytest.raises(UnsupportedCharset):
            charset_name(unknown)
    with pytest.raises(UnsupportedCharset):
        decoder("gb18030")
