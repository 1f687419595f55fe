"""Messages of the log that a kernel takes in runs say what they say one by one."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from replicator.model.change import ChangeBatch, LogMessage, SchemaChange, Settled, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.offset import LsnOffset
from replicator.sources.postgres.stream import catch_up
from replicator.sources.postgres.stream.catalog_observer import Now
from replicator.sources.postgres.stream.decoder import Decoder
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.watermark import write_mark
from replicator.sources.postgres.wire import messages as m
from replicator.sources.postgres.xid_snapshot import Snapshot
from testing.workload.histories import Size, generate
from testing.workload.runner import Player
from tests.integration.postgres.test_workload_postgres import SCHEMA, database
from tests.integration.replayed import decoded, recorded
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
SIZE = Size(tables=(2, 4), rows=(0, 100), phases=(2, 3), steps=(60, 100))
OPTIONS = ReadOptions(batch_rows=50)
NAME = "runs"


class Played(NamedTuple):
    config: PostgresConfig
    catalog: PostgresCatalog
    tables: TableSet
    schemas: dict[TableId, TableSchema]
    start: LsnOffset


def said(messages: Iterable[LogMessage]) -> list[Any]:
    """Each change and DDL by its ordinal, each failure, and between which changes what was settled; however they were
    cut into batches.
    """
    rows: dict[int, Any] = {}
    found: list[Any] = []
    for message in messages:
        if isinstance(message, ChangeBatch):
            message.data.validate(full=True)
            for row in message.data.to_pylist():
                assert row["_sequence_num"] not in rows
                rows[row["_sequence_num"]] = (message.table, message.schema, repr(row))
        elif isinstance(message, SchemaChange):
            rows[message.ordinal] = message
        elif isinstance(message, TableFailed):
            found.append((message.table, message.error.message))
        elif isinstance(message, Settled):
            found.append((len(rows), max(rows, default=-1), message.unsettled))
    return [*found, sorted(rows.items(), key=lambda one: one[0])]


def observed(decoder: Decoder, messages: list[bytes], rng: random.Random) -> None:
    """As if the source had been looked at now and then while the log was written, some transactions being open."""
    ends = [m.commit(one[m.XLOG_HEADER :]).end for one in messages if one[m.XLOG_HEADER :][:1] == b"C"]
    xids = [m.begin(one[m.XLOG_HEADER :])[0] for one in messages if one[m.XLOG_HEADER :][:1] == b"B"]
    for number, end in enumerate(sorted(rng.sample(ends, min(20, len(ends))))):
        running = frozenset(rng.sample(xids, 3))
        snapshot = Snapshot(min(running), max(xids) - rng.randint(0, 10), running)
        decoder.observed(
            Now(snapshot, end - rng.randint(0, 40), datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number))
        )


@contextmanager
def played(server: EmbeddedPostgresSource, seed: int) -> Iterator[Played]:
    """A random history, behind the place where its log is read from; one transaction is open, and then another, nearly
    all the time.
    """
    with database(server, NAME) as other:
        address = server.address
        config = PostgresConfig(address["host"], address["port"], address["user"], address["password"], NAME)
        player = Player(generate(seed, "postgres", SIZE), other, SCHEMA)
        player.prepare()
        tables = TableSet(databases=frozenset({SCHEMA}))
        with closing(connect(config)) as control, closing(other()) as slow:
            log = ReplicationSlot(control, config, NAME)
            start = log.prepare(tables, first=True).offset
            assert isinstance(start, LsnOffset)
            catalog = PostgresCatalog(control, left_out=tables)
            names = [one.table for one in catalog.tables(database=SCHEMA)[0]]
            schemas = {t: one for t, one in catalog.describe(names).items() if isinstance(one, TableSchema)}
            thread = threading.Thread(target=player.play)
            thread.start()
            with slow.cursor() as cursor:
                while thread.is_alive():
                    cursor.execute("SELECT pg_logical_emit_message(true, 'slow', 'begun')")
                    thread.join(0.2)
                    cursor.execute("SELECT pg_logical_emit_message(true, 'slow', 'done'); COMMIT")
            write_mark(control, NAME, "END", "")
            yield Played(config, catalog, tables, schemas, start)
            log.remove()


@pytest.mark.parametrize("version", ["13.22.0", "17.5.0"])
@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_run_is_what_its_messages_are(
    postgres_version: Callable[[str], EmbeddedPostgresSource], version: str, seed: int
) -> None:
    rng = random.Random(seed)
    with played(postgres_version(version), seed) as of:
        messages = recorded(of.config, NAME, of.start, of.tables, of.schemas, "END")
        ways = []
        for in_runs in (False, True, True):
            relations = Relations(of.catalog, of.tables, of.schemas, "null")
            decoder = Decoder(relations, OPTIONS, of.start, NAME, lambda _: None)
            observed(decoder, messages, random.Random(seed))
            told = decoded(decoder, messages, rng, in_runs=in_runs, boundaries=lambda: rng.random() < 0.2)
            ways.append((said(told), decoder.position, decoder.as_of, decoder.settling.unsettled()))
    assert len(ways[0][0][-1]) > 100
    assert ways[0] == ways[1]
    assert ways[0] == ways[2]


@pytest.mark.parametrize("version", ["13.22.0", "17.5.0"])
@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.long)])
def test_a_backlog_in_slices_is_what_the_stream_gives(
    postgres_version: Callable[[str], EmbeddedPostgresSource], monkeypatch: pytest.MonkeyPatch, version: str, seed: int
) -> None:
    """But for the descriptions of tables and types, which each slice gives again.

    These seeds attach and detach no partition: the stream of Postgres 13 and 14 goes on as if it had not been.
    """
    with played(postgres_version(version), seed) as of:
        streamed = plain(recorded(of.config, NAME, of.start, of.tables, of.schemas, "END"))
        monkeypatch.setattr(catch_up, "FAR", -1)
        monkeypatch.setattr(catch_up, "_NEAR", -1)  # the stream is never near enough
        for first, reach in ((1, 4096), (100_000, 1 << 30)):
            slices: list[int] = []
            monkeypatch.setattr(catch_up, "_FIRST", first)
            monkeypatch.setattr(catch_up, "_REACH", reach)
            monkeypatch.setattr(catch_up, "_MOST", max(300, first))
            monkeypatch.setattr(catch_up.Backlog, "_ask", noting(slices))
            found = plain(recorded(of.config, NAME, of.start, of.tables, of.schemas, "END"))
            assert len(slices) > (8 if first < 100 else 0)
            assert found == streamed


def noting(slices: list[int], ask: Any = catch_up.Backlog._ask) -> Callable[[catch_up.Backlog, int], None]:
    def noted(self: catch_up.Backlog, number: int) -> None:
        slices.append(number)
        ask(self, number)

    return noted


def plain(messages: list[bytes]) -> list[bytes]:
    return [one[m.XLOG_HEADER :] for one in messages if one[m.XLOG_HEADER :][:1] not in (b"R", b"Y")]
