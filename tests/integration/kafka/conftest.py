"""A broker for the run, and labs that replicate to it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from pymysql.cursors import DictCursor

from replicator.snapshot import sizing
from testing.servers.kafka import EmbeddedKafka
from tests.integration.kafka.consumer import Row, Topic
from tests.integration.pipeline.conftest import process_environment
from tests.integration.pipeline.lab import Lab
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.replicators import services
from webapp.replicators.models import Replicator, SnapshotRun
from webapp.replicators.selection.entries import SelectionEntry

__all__ = ["process_environment"]


class Replicating(Lab):
    """A lab whose replicator writes topics: `lab.database.table`."""

    broker: EmbeddedKafka

    def replicate(self, *tables: str, options: Any = None, start: bool = True, **target: Any) -> Replicator:
        selection = [SelectionEntry(self.database, table) for table in tables] or [SelectionEntry(self.database)]
        settings = {
            "kind": "kafka",
            "bootstrap_servers": self.broker.bootstrap_servers,
            "topic_prefix": self.name,
            **target,
        }
        return services.create_replicator(
            name=self.name,
            connection=self.connection(),
            selection=selection,
            target=settings,
            options=options or {},
            start=start,
        )

    def topic(self, table: str) -> Topic:
        return Topic.read(self.broker.bootstrap_servers, self.name, f"{self.database}.{table}")


class KafkaLab(Replicating):
    """Of MariaDB."""

    def rows(self, table: str) -> list[Row]:
        """The source's, as a session in UTC shows them."""
        with (
            self.connect(
                cursorclass=DictCursor, database=self.database, init_command="SET time_zone = '+00:00'"
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"SELECT * FROM `{table}`")
            return list(cursor.fetchall())

    def assert_rebuilt(self, table: str, topic: str = "") -> Topic:
        """The topic, replayed, is the source's table."""
        found = self.topic(topic or table)
        theirs, ours = (sorted(map(text, rows)) for rows in (found.table(), self.rows(table)))
        assert theirs == ours
        return found


def text(row: Row) -> str:
    """By name; a number is what it is worth (unsigned 64 bits are decimals)."""
    return repr(
        sorted(
            (name, float(v) if isinstance(v, int | float) or hasattr(v, "as_tuple") else v) for name, v in row.items()
        )
    )


@pytest.fixture
def lab(mariadb: EmbeddedMariaDB, broker: EmbeddedKafka, transactional_db: Any) -> Iterator[KafkaLab]:
    one = KafkaLab(mariadb.address, f"kafka_{uuid.uuid4().hex[:8]}")
    one.broker = broker
    yield one
    one.close()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Read snapshots in chunks of this many rows."""
    rows = 50
    monkeypatch.setattr(sizing, "START_ROWS", rows)
    monkeypatch.setattr(sizing, "MAX_ROWS", rows)
    monkeypatch.setattr(SnapshotRun._meta.get_field("chunk_rows"), "default", rows)
    return rows
