"""Damaged messages of a live Postgres's log, through the decoder as it runs: a clear error or an answer, never a crash
or a hang.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from replicator.errors import TidemarkError
from replicator.model.change import ChangeBatch, LogMessage, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import connect
from replicator.sources.postgres.offset import LsnOffset
from replicator.sources.postgres.stream.decoder import Decoder
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.wire import messages as m
from tests.environment import HOME
from tests.integration.replayed import decoded, recorded
from tests.property.budget import examples, seed
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
OPTIONS = ReadOptions()
TABLES = TableSet(tables=frozenset({TableId("m", "t"), TableId("m", "k")}))
XLOG = b"w" + bytes(m.XLOG_HEADER - 1)
EXTREMES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)


class Recorded(NamedTuple):
    catalog: PostgresCatalog
    messages: list[bytes]
    start: LsnOffset
    schemas: dict[TableId, Any]


@pytest.fixture(scope="module", params=["text", "binary"])
def found(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    """All messages of a few transactions, as the server sent them."""
    server = EmbeddedPostgresSource(
        HOME / f"postgres-{request.param}", durable=False, options={"logical_decoding_work_mem": "64kB"}
    )
    server.start()
    address = server.address
    config = PostgresConfig(address["host"], address["port"], address["user"], address["password"], address["dbname"])
    connection = connect(config)
    extra = ", net inet" if request.param == "text" else ""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA m")
        cursor.execute(f"CREATE TABLE m.t (id int PRIMARY KEY, n numeric(9,2), at timestamptz, v text, j jsonb{extra})")
        cursor.execute("CREATE TABLE m.k (a float8, b bytea, d date); ALTER TABLE m.k REPLICA IDENTITY FULL")
    log = ReplicationSlot(connection, config, "mutants")
    start = log.prepare(TABLES, first=True).offset
    catalog = PostgresCatalog(connection, left_out=TABLES)
    schemas: dict[TableId, Any] = dict(catalog.describe(sorted(TABLES.tables)))
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO m.t SELECT n, n / 4.0, now(), repeat('x', n), '[1]' FROM generate_series(1, 20) n")
        cursor.execute("UPDATE m.t SET id = id + 100 WHERE id < 5; DELETE FROM m.t WHERE id = 9")
        cursor.execute(
            "INSERT INTO m.k VALUES ('NaN', '\\x00ff', '2001-02-03'), (NULL, NULL, NULL); UPDATE m.k SET a = 1; DELETE"
            " FROM m.k"
        )
        cursor.execute(
            "BEGIN; INSERT INTO m.t SELECT n, 1, now(), repeat('y', 200), NULL FROM generate_series(1000, 1600) n;"
            " COMMIT"
        )
        cursor.execute("TRUNCATE m.k")
        cursor.execute("SELECT pg_logical_emit_message(true, 'tidemark', 'mutants|END')")
    assert isinstance(start, LsnOffset)
    messages = [one[m.XLOG_HEADER :] for one in recorded(config, "mutants", start, TABLES, schemas, "END")]
    yield Recorded(catalog, messages, start, schemas)
    connection.close()
    server.stop()


def decode(found: Recorded, messages: list[bytes], rng: random.Random, *, in_runs: bool) -> list[LogMessage]:
    relations = Relations(found.catalog, TABLES, found.schemas, "null")
    decoder = Decoder(relations, OPTIONS, found.start, "mutants", lambda _: None)
    return list(decoded(decoder, [XLOG + one for one in messages], rng, in_runs=in_runs))


def mutate(messages: list[bytes], rng: random.Random) -> list[bytes]:
    """One damage: bytes, a length, a message's end, a message that is lost, doubled or moved."""
    found = list(messages)
    place = rng.randrange(len(found))
    damaged = bytearray(found[place])
    how = rng.randrange(7)
    if how < 3:
        for _ in range(rng.choice((1, 1, 4))):
            damaged[rng.randrange(len(damaged))] = rng.choice((*EXTREMES, rng.randrange(256)))
        found[place] = bytes(damaged)
    elif how == 3:
        found[place] = bytes(damaged[: rng.randrange(len(damaged)) or 1])
    elif how == 4:
        found[place] = bytes(damaged) + rng.randbytes(rng.randrange(1, 9))
    elif how == 5:
        del found[place]
    else:
        found.insert(rng.randrange(len(found)), found[place])
    return found


@pytest.mark.parametrize("in_runs", [False, True])
def test_whole_messages_are_read_whole(found: Recorded, in_runs: bool) -> None:
    out = decode(found, found.messages, random.Random(1), in_runs=in_runs)
    rows = sum(one.data.num_rows for one in out if isinstance(one, ChangeBatch))
    assert rows == 20 + 5 + 2 + 2 + 2 + 601


@pytest.mark.parametrize("in_runs", [False, True])
def test_damage_is_refused_or_read_as_it_stands(found: Recorded, in_runs: bool) -> None:
    start, count = seed(), examples(60, 20_000)
    print(f"seed {start}, {count} mutants")
    outcomes: Counter[str] = Counter()
    for number in itertools.islice(itertools.count(start), count):
        try:
            rng = random.Random(number)
            out = decode(found, mutate(found.messages, rng), rng, in_runs=in_runs)
        except TidemarkError as error:
            outcomes[error.code] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number}: {error!r}") from error
        else:
            outcomes["table" if any(isinstance(one, TableFailed) for one in out) else "read"] += 1
    print(dict(outcomes))
    assert outcomes["read"] > count // 10
    assert outcomes["log_corrupt"] > count // 10
