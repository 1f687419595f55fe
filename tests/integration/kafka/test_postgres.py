"""A Postgres source, replicated to topics and rebuilt from them: each value is the text that the server itself gives of
it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from testing.servers.kafka import EmbeddedKafka
from tests.integration.kafka.conftest import Replicating
from tests.integration.kafka.consumer import Row, Topic
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
COLUMNS = (
    "region text, id int, whole bigint, small numeric(12,4), free numeric, moment timestamptz, wall timestamp, day"
    " date, doc jsonb, big text, raw bytea, ratio float8, yes boolean, mark uuid, tags text[], PRIMARY KEY (region, id)"
)
ROW = (
    "'r' || n % 3, n, 9223372036854775807 - n, n / 7.0 - 3, (n / 7.0)::numeric * 1e20, timestamptz '2024-03-31"
    " 01:30:00.000001+01' + n * interval '1 hour', timestamp '1999-12-31 23:59:59.999999' + n * interval '1 day', date"
    " '0001-01-01' + n, jsonb_build_object('n', n, 'none', NULL, 'text', E'\"q\\\\ \\u00e9 \\n', 'list',"
    " jsonb_build_array(n, 1.50)), repeat(md5(n::text), 300), decode(md5(n::text), 'hex'), n / 3.0, n % 2 = 0,"
    " md5(n::text)::uuid, ARRAY['a,b', NULL, n::text]"
)
READ = "region, id, whole, small, free, moment, wall, day, doc, big, encode(raw, 'hex') raw, ratio, yes, mark, tags"


class PostgresKafkaLab(Replicating, PostgresLab):
    """Topics are `lab.schema.table`."""

    def texts(self, table: str) -> list[dict[str, str | None]]:
        """Its rows as the server writes them, in UTC."""
        with self.connect() as session, session.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'; SET extra_float_digits = 3")
            cursor.execute(f"SELECT {READ} FROM {table} WHERE false")
            names = [column.name for column in cursor.description]
            texts = ", ".join(f"{name}::text" for name in names)
            cursor.execute(f'SELECT {texts} FROM (SELECT {READ} FROM {table}) AS t ORDER BY t.region COLLATE "C", t.id')
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def assert_rebuilt(self, table: str) -> Topic:
        """Row by row, and value by value as text."""
        found = self.topic(table)
        rebuilt = sorted(found.table(), key=lambda row: (row["region"], row["id"]))
        theirs = self.texts(table)
        assert len(rebuilt) == len(theirs)
        for ours, expected in zip(rebuilt, theirs, strict=True):
            assert {name: shown(name, value) for name, value in ours.items()} == expected
        return found


def shown(name: str, value: Any) -> str | None:
    """As Postgres writes it."""
    match value:
        case None:
            return None
        case datetime():
            text = value.isoformat(sep=" ", timespec="microseconds").rstrip("0").rstrip(".")
            return text + ("+00" if name == "moment" else "")
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case float():
            return json.dumps(int(value) if value.is_integer() else value)
    return str(value)


@pytest.fixture
def lab(postgres_source: EmbeddedPostgresSource, broker: EmbeddedKafka, transactional_db: Any) -> Iterator[Any]:
    one = PostgresKafkaLab(postgres_source.address, f"kafka_{uuid.uuid4().hex[:8]}")
    one.broker = broker
    yield one
    one.close()


@pytest.mark.parametrize(
    ("format_", "envelope"), [("json", "debezium"), pytest.param("avro", "flat", marks=pytest.mark.long)]
)
def test_a_table_of_postgres_is_rebuilt_exactly(
    lab: PostgresKafkaLab, small_chunks: int, format_: str, envelope: str
) -> None:
    lab.execute(f"CREATE TABLE t ({COLUMNS})", "ALTER TABLE t ALTER big SET STORAGE EXTERNAL")
    lab.execute(f"INSERT INTO t SELECT {ROW} FROM generate_series(1, 120) n", "INSERT INTO t VALUES ('none', 0)")
    lab.replicate("t", format=format_, envelope=envelope, partitions=3)
    lab.run()
    loaded = lab.assert_rebuilt("t")
    assert loaded.ops["r"] == 121
    with lab.transaction() as cursor:
        cursor.execute(f"INSERT INTO t SELECT {ROW} FROM generate_series(121, 140) n")
        cursor.execute('UPDATE t SET small = small * 2, doc = doc || \'{"more": [1, {"a": null}]}\' WHERE id % 10 = 1')
        cursor.execute("UPDATE t SET big = repeat('ü', 5000) WHERE id % 20 = 1")
        cursor.execute(
            "UPDATE t SET whole = NULL, small = NULL, moment = NULL, doc = NULL, tags = NULL WHERE id % 10 = 2"
        )
        cursor.execute(
            "UPDATE t SET whole = 7, small = -0.0001, doc = 'null', free = 'NaN', ratio = '-Infinity' WHERE id = 0"
        )
        cursor.execute("DELETE FROM t WHERE id % 10 = 3")
        cursor.execute("DELETE FROM t WHERE id % 10 = 4 AND id < 100")
        cursor.execute(f"INSERT INTO t SELECT {ROW} FROM generate_series(4, 4) n")  # comes again
    lab.run()
    changed = lab.assert_rebuilt("t")
    assert (changed.ops["d"], changed.tombstones) == (24, 24)
    assert changed.ops["c"] == 21
    lacking = [value for value in changed.values if "big" in unchanged(value)]
    assert lacking, "an UPDATE that leaves large values out says so"
    assert all(value.get("big", value.get("after", {}).get("big")) is None for value in lacking)
    lab.execute(
        "UPDATE t SET region = 'moved', big = 'short' WHERE id % 10 = 5 AND id < 60",
        "UPDATE t SET id = id + 1000, big = 'short too' WHERE id % 10 = 6 AND id < 60",
    )
    lab.run()
    moved = lab.assert_rebuilt("t")
    assert moved.ops["d"] - changed.ops["d"] == moved.ops["c"] - changed.ops["c"] == 12
    assert moved.tombstones == moved.ops["d"]
    assert moved.ops["t"] == 0  # nothing was read again
    lab.execute("UPDATE t SET id = id + 2000 WHERE id % 10 = 7 AND id < 60")
    lab.run()
    anew = lab.assert_rebuilt("t")
    assert anew.ops["t"] == 3  # keys moved without their large values: resnapshot, one truncate per partition
    if envelope == "debezium":
        source = anew.values[-1]["source"]
        assert (source["connector"], source["db"], source["table"]) == ("postgresql", lab.database, "t")


def unchanged(value: Row) -> list[str]:
    """Columns whose values the message leaves out."""
    return (value["source"].get("unchanged") if "source" in value else value.get("__unchanged")) or []
