"""Tables in a Postgres server, and a reader that is not the target: plain SELECTs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Create, Merge, Target, TargetTable
from replicator.targets.kind import Opening
from replicator.targets.postgres.kind import POSTGRES
from replicator.targets.redshift.kind import REDSHIFT
from testing.servers.redshift import EmbeddedRedshift
from tests.staged import Change, Row, segment, stage
from webapp.embedded.postgres_source import EmbeddedPostgresSource

NAMES = itertools.count(1)
PATIENCE_SECONDS = 30.0


class PostgresCopies:
    """A namespace, a staging folder, and targets over them."""

    kind = POSTGRES
    cut_seconds, batches = 0.03, 60  # between cuts of connections, of which a change must outlive some

    def __init__(self, server: EmbeddedPostgresSource, folder: Path, keys: str, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self.storage = Storage(f"file://{folder}/staging")
        self.settings = self._settings(keys)
        self._opened: list[Target] = []
        self.target = self.another_worker()

    def _settings(self, keys: str) -> dict[str, Any]:
        server = self.server
        return {
            "host": server.host, "port": server.port, "database": server.database, "user": server.user,
            "password": server.password, "keys": keys,
        }  # fmt: skip

    def another_worker(self, replicator: str = "r1") -> Target:
        lake: Any = None
        made = self.kind.open(Opening(lake, lake, self.storage, replicator, self.settings, "mysql"))
        self._opened.append(made)
        return made

    def close(self) -> None:
        for one in self._opened:
            one.close()

    def table(
        self, schema: TableSchema, name: str = "", *, applied: int = -1, load: str = "L1", mode: Mode = Mode.MIRROR
    ) -> TargetTable:
        """A new empty target table."""
        table = TargetTable(self.namespace, name or f"t{next(NAMES)}")
        self.target.apply(table, Create(schema, 1, applied, load, mode))
        return table

    def segment(self, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
        return segment(self.storage, schema, changes, version)

    def stage(self, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
        return stage(self.storage, schema, data, version)

    def merge(self, table: TargetTable, schema: TableSchema, *changes: Change) -> str:
        staged = self.segment(schema, changes)
        return self.target.apply(table, Merge([staged], schema, staged.last_sequence)).how

    def query(self, sql: str, *values: Any) -> list[Any]:
        """As another program does; at least for statements with a result."""
        with self.session() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def session(self) -> Iterator[Any]:
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            yield cursor

    def place(self, table: TargetTable) -> str:
        return ".".join('"' + one.replace('"', '""') + '"' for one in (table.namespace, table.name))

    def columns(self, table: TargetTable) -> dict[str, str]:
        """Types by name."""
        found = self.query(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = %s::regclass"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum", self.place(table)
        )  # fmt: skip
        return dict(found)

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Row]:
        """In no order; `_sequence_num` only if asked for."""
        names = [name for name in self.columns(table) if sequence or name != "_sequence_num"]
        listed = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        found = self.query(f"SELECT {listed} FROM {self.place(table)}")
        return [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in found]


class RedshiftCopies(PostgresCopies):
    """The same in a stand-in for Redshift; read from the Postgres behind it."""

    kind = REDSHIFT
    cut_seconds, batches = 0.5, 15

    def __init__(self, server: EmbeddedRedshift, folder: Path, bucket: str, namespace: str) -> None:
        self._redshift = server
        super().__init__(server.postgres, folder, bucket, namespace)

    def _settings(self, keys: str) -> dict[str, Any]:
        return dict(self._redshift.settings(keys))

    @contextmanager
    def session(self) -> Iterator[Any]:
        with closing(self._redshift.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            yield cursor


def eventually(look: Callable[[], Any]) -> Any:
    """What `look` gives once it is true; AssertionError where it is not in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to be")
