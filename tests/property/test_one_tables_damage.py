"""Damage to the events of one table, behind checksums that hold: that table fails at most, and nothing of the others is
lost or changed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator

import pytest

from replicator.model.change import ChangeBatch, LogMessage, SchemaChange, TableFailed, UndecodableRows
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.rows.table_map import table_id, table_name
from replicator.sources.mysql.stream import reader as mysql_log
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from tests.golden.make_binlogs import FOLDER
from tests.property.budget import examples, seed
from tests.property.decoding import _plain, read_live
from tests.property.mutations import _INSIDE, Log, _repaired, open_log

LOGS = ("mariadb-life", "mariadb-no-checksum", "mariadb-types", "mysql-made", "mysql-made-no-checksum")
Rows = dict[TableId, list[object]]


def events_of_tables(log: Log) -> dict[TableId, list[int]]:
    """Places of each table's TABLE_MAPs and rows events."""
    found: dict[TableId, list[int]] = {}
    names: dict[int, TableId] = {}
    for place, raw in enumerate(log.events):
        kind, body = raw[4], raw[e.HEADER_SIZE :]
        if kind == e.TABLE_MAP:
            names[table_id(body)] = table_name(body)
        if kind == e.TABLE_MAP or (kind in e.ROWS and table_id(body) in names):
            found.setdefault(names[table_id(body)], []).append(place)
    return found


def damaged(log: Log, place: int, rng: random.Random) -> bytes:
    """The event with damage behind what says which table it is of; its length (so that all others are in their places)
    and checksum are right.
    """
    raw, tail = log.events[place], 4 if log.checksum else 0
    kept = e.HEADER_SIZE + 8
    if raw[4] == e.TABLE_MAP:
        kept += raw[kept] + 2
        kept += raw[kept] + 2
    body = bytearray(raw[: len(raw) - tail])
    if kept >= len(body):
        return raw
    size = len(body)
    rng.choice(_INSIDE)(body, kept, rng)
    body = (body + rng.randbytes(max(0, size - len(body))))[:size]
    return bytes(_repaired(body, checksum=log.checksum))


def kin(messages: Iterator[LogMessage]) -> dict[TableId, set[TableId]]:
    """Names that a table has one after the other, or that tables exchange."""
    found: dict[TableId, set[TableId]] = {}
    for message in messages:
        if isinstance(message, SchemaChange) and message.new_table is not None:
            both = found.get(message.table, {message.table}) | found.get(message.new_table, {message.new_table})
            found.update(dict.fromkeys(both, both))
    return found


def rows_of(messages: Iterator[LogMessage], *, but: Collection[TableId] = ()) -> tuple[Rows, set[TableId]]:
    """What was read of each table but some, and which tables failed or have rows that were dead letters."""
    rows: Rows = {}
    failed: set[TableId] = set()
    for message in messages:
        if isinstance(message, TableFailed | UndecodableRows):
            failed.add(message.table)
        elif isinstance(message, ChangeBatch) and message.table not in but:
            message.data.validate(full=True)
            each = (_plain(message.data.slice(place, 1)) for place in range(message.data.num_rows))
            rows.setdefault(message.table, []).extend((row[1], *row[4:]) for row in each)
        elif isinstance(message, SchemaChange) and message.table not in but:
            rows.setdefault(message.table, []).append((message.operation, message.schema))
    return rows, failed


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("runs", [True, False], ids=["in runs", "one by one"])
def test_damage_to_one_table_is_that_tables(name: str, monkeypatch: pytest.MonkeyPatch, *, runs: bool) -> None:
    if not runs:
        monkeypatch.setattr(mysql_log, "PLAIN", frozenset())
    log, start = open_log((FOLDER / name).read_bytes()), seed()
    related = kin(read_live(log.events))
    names = {table: related.get(table, {table}) for table in events_of_tables(log)}
    whole = {table: rows_of(read_live(log.events), but=names[table])[0] for table in names}
    outcomes: Counter[bool] = Counter()
    for number in range(examples(60, 5000)):
        rng = random.Random(f"{start}/{number}")
        table, places = rng.choice(sorted(events_of_tables(log).items()))
        changed = list(log.events)
        for place in rng.sample(places, min(len(places), rng.randint(1, 3))):
            changed[place] = damaged(log, place, rng)
        rows, failed = rows_of(read_live(changed, ReadOptions(keep_undecodable=rng.random() < 0.5)), but=names[table])
        assert failed <= names[table], f"seed {start}, case {number}"
        assert rows == whole[table], f"seed {start}, case {number}"
        outcomes[bool(failed)] += 1
    assert outcomes[True] > 0


def test_of_a_table_that_is_not_selected_only_the_name_is_read() -> None:
    log = open_log((FOLDER / "mariadb-life").read_bytes())
    tables = events_of_tables(log)
    one = max(tables, key=lambda table: len(tables[table]))
    chosen = TableSet(tables=frozenset(tables) - {one})
    expected = _read(log.events, chosen)
    changed = list(log.events)
    for place in tables[one]:
        raw = log.events[place]
        kept = e.HEADER_SIZE + 8
        if raw[4] == e.TABLE_MAP:
            kept += raw[kept] + 2
            kept += raw[kept] + 2
        tail = 4 if log.checksum else 0
        body = bytearray(raw[:kept] + b"\xff" * (len(raw) - tail - kept))
        changed[place] = bytes(_repaired(body, checksum=log.checksum))
    assert _read(changed, chosen) == expected


def _read(events: list[bytes], tables: TableSet) -> tuple[Rows, set[TableId]]:
    parser, options = e.EventParser("binlog.000001", 4), ReadOptions()
    interpreter = TransactionAssembler(
        tables, LogSchemas(tables, {}, options, None), options, BinlogOffset("binlog.000001", 4)
    )
    for raw in events:
        interpreter.feed(parser.parse(raw))
    interpreter.settle()
    return rows_of(iter(interpreter.out))
