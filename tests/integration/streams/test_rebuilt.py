"""A client that knows nothing but the API rebuilds each table exactly, row by row against the source."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from replicator.streams.client import Batch, Client
from tests.integration.pipeline.lab import Lab, insert
from webapp.streams import services

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(1500)]
KEYED = "(id INT NOT NULL, v VARCHAR(40), price DECIMAL(10,2), at DATETIME(6), raw VARBINARY(20), PRIMARY KEY (id))"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """docs/examples/stream_client.py."""
    path = Path(__file__).parents[3] / "docs" / "examples" / "stream_client.py"
    spec = importlib.util.spec_from_file_location("stream_client", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(value: Any) -> Any:
    """A value of the driver's as the API has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case datetime() | date():
            return value.isoformat()
        case time() | timedelta():
            return str(value)
    return value


def source_rows(lab: Lab, table: str) -> list[str]:
    with lab.sql.cursor() as cursor:
        cursor.execute(f"SELECT * FROM `{lab.database}`.`{table}`")
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    return sorted(json.dumps(dict(zip(names, map(plain, row), strict=True)), sort_keys=True) for row in rows)


def assert_rebuilt(lab: Lab, copy: Any, *tables: str) -> int:
    number = 0
    for table in tables:
        found = sorted(json.dumps(row, sort_keys=True) for row in copy.rows(lab.database, table))
        expected = source_rows(lab, table)
        assert found == expected, table
        number += len(expected)
    return number


def read_on(client: Client, stream: str, store: Callable[[Batch], None], *, group: str, chance: random.Random) -> int:
    """Every shard to its end, in batches of any size; now and then the client dies between storing and acking, and
    begins again.
    """
    batches = 0
    for shard in range(len(client.shards(stream))):
        more = True
        while more:
            size = chance.choice([1, 3, 17, 1000])
            batch = client.changes(stream, shard, group=group, max_rows=size)
            assert sum("key" in change for change in batch.changes) <= size
            store(batch)
            batches, more = batches + 1, batch.more
            if chance.random() < 0.3:
                more = True  # died before the ack: the same comes again
                continue
            client.ack(stream, shard, batch.checkpoint, group=group)
    return batches


def traffic(lab: Lab, chance: random.Random, tables: list[str], steps: int) -> None:
    """Inserts, updates, deletes, keys that change (in cycles, too), transactions over several tables."""
    at = datetime.fromisoformat("2026-01-01T10:00:00.000001")
    for _ in range(steps):
        with lab.transaction() as cursor:
            for _ in range(chance.randint(1, 6)):
                table, key, other = chance.choice(tables), chance.randrange(300), chance.randrange(300)
                match chance.randrange(5):
                    case 0:
                        row = (
                            key,
                            f"v{chance.random()}",
                            Decimal(key) / 4,
                            at,
                            bytes([key % 256, 0]),
                        )
                        cursor.execute(f"REPLACE INTO {table} VALUES (%s, %s, %s, %s, %s)", row)
                    case 1:
                        cursor.execute(f"UPDATE {table} SET v = %s WHERE id = %s", (f"u{chance.random()}", key))
                    case 2:
                        cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
                    case 3:
                        cursor.execute(f"UPDATE IGNORE {table} SET id = %s WHERE id = %s", (other, key))
                    case 4:
                        cursor.execute(
                            f"UPDATE {table} SET price = NULL, raw = NULL WHERE id BETWEEN %s AND %s", (key, key + 5)
                        )


@pytest.mark.parametrize("shards", [3, pytest.param(1, marks=pytest.mark.long)])
def test_a_client_rebuilds_each_table_exactly_from_snapshot_and_log(
    lab: Lab, client: Client, example: ModuleType, tmp_path: Path, shards: int
) -> None:
    chance = random.Random(shards)
    tables = ["one", "two"]
    lab.execute(f"USE `{lab.database}`", *(f"CREATE TABLE {name} {KEYED}" for name in tables))
    lab.execute("CREATE TABLE bare (a INT, b VARCHAR(20))")
    with lab.transaction() as cursor:
        at = datetime.fromisoformat("2026-02-03T04:05:06.000789")
        for name in tables:
            insert(cursor, name, [(n, f"row {n}", Decimal(n) / 8, at, bytes([n % 256])) for n in range(250)])
        insert(cursor, "bare", [(n % 7, None if n % 3 else "x") for n in range(60)])
    replicator = lab.replicate(start=True)
    services.create_stream(name="all", replicator=replicator, shards=shards)
    copy = example.Copy(str(tmp_path / "copy.db"))
    lab.run(400)
    read_on(client, "all", copy.store, group="g", chance=chance)
    assert_rebuilt(lab, copy, *tables, "bare")
    for _ in range(3):
        traffic(lab, chance, tables, 40)
        lab.execute("INSERT INTO bare VALUES (1, 'x'), (1, 'x')", "DELETE FROM bare WHERE a = 2 LIMIT 3")
        lab.execute("UPDATE bare SET b = 'y' WHERE a = 1 LIMIT 4")
        lab.run(400)
        read_on(client, "all", copy.store, group="g", chance=chance)
        assert assert_rebuilt(lab, copy, *tables, "bare") > 100
    copy.sql.close()
    copy = example.Copy(str(tmp_path / "copy.db"))  # the client starts again
    lab.execute("ALTER TABLE one ADD COLUMN extra INT DEFAULT 5, RENAME COLUMN v TO w", "TRUNCATE TABLE two")
    lab.execute("RENAME TABLE two TO three", "INSERT INTO three (id, v) VALUES (1, 'after')", "DROP TABLE bare")
    lab.execute("UPDATE one SET w = 'w' WHERE id < 20")
    lab.run(400)
    read_on(client, "all", copy.store, group="g", chance=chance)
    assert assert_rebuilt(lab, copy, "one", "three") > 100
    assert copy.rows(lab.database, "bare") == copy.rows(lab.database, "two") == []


def test_a_stream_made_later_gets_the_rows_that_are_there_with_a_snapshot(
    lab: Lab, client: Client, example: ModuleType, tmp_path: Path
) -> None:
    chance = random.Random(7)
    lab.execute(f"USE `{lab.database}`", f"CREATE TABLE one {KEYED}", "CREATE TABLE bare (a INT, b VARCHAR(20))")
    lab.execute("INSERT INTO one (id, v) SELECT seq, concat('r', seq) FROM seq_1_to_200")
    lab.execute("INSERT INTO bare VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    replicator = lab.replicate(start=True)
    lab.run(400)
    services.create_stream(name="late", replicator=replicator, shards=2, snapshot=True)
    traffic(lab, chance, ["one"], 30)
    lab.execute("DELETE FROM bare WHERE a = 2")
    lab.run(400)
    lab.assert_equal()
    copy = example.Copy(str(tmp_path / "copy.db"))
    read_on(client, "late", copy.store, group="g", chance=chance)
    assert assert_rebuilt(lab, copy, "one", "bare") > 50
