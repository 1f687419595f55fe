"""Tables in a warehouse, and a reader that is not the target: plain SELECTs.  Here of Postgres, and of Redshift by its
stand-in.
"""

from __future__ import annotations

import itertools
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import boto3
import pyarrow as pa

from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.base import Create, Merge, Target, TargetTable
from replicator.targets.kind import Opening, TargetKind
from replicator.targets.postgres.kind import POSTGRES
from replicator.targets.redshift.config import destination
from replicator.targets.redshift.kind import REDSHIFT
from testing.servers.redshift import EmbeddedRedshift
from tests.staged import Change, Row, insert, schema_of, segment, stage
from webapp.embedded.postgres_source import EmbeddedPostgresSource

NAMES = itertools.count(1)
PATIENCE_SECONDS = 30.0
KEYED = schema_of({"id": "int", "v": "string"}, ["id"])


class Copies(ABC):
    """A namespace, a staging folder, and targets over them.

    stepwise: each definition commits separately, and the next look completes an interrupted change; renames: an
    interrupted rename, too.  called: the pattern of the names of tables that are given none.
    trouble_seconds: between two troubles; batches: that two workers apply meanwhile; zeros: that rows without key
    distinguish.
    """

    kind: ClassVar[TargetKind]
    stepwise = renames = False
    called: ClassVar[str] = "t{}"
    trouble_seconds: ClassVar[float] = 1.0
    batches: ClassVar[int] = 25
    zeros: ClassVar[tuple[float, ...]] = (0.0, -0.0)

    def __init__(self, settings: Mapping[str, Any], folder: Path, namespace: str) -> None:
        self.namespace, self.settings = namespace, dict(settings)
        self.storage = Storage(f"file://{folder}/staging")
        self._opened: list[Target] = []
        self.target = self.another_worker()

    def another_worker(self, replicator: str = "r1") -> Target:
        lake: Any = None
        made = self.kind.open(Opening(lake, lake, self.storage, replicator, self.settings, "mysql"))
        self._opened.append(made)
        return made

    @property
    def alive(self) -> bool:
        """False if the server has crashed."""
        return True

    def start_again(self) -> None:
        """The server, of which nothing is left."""
        raise NotImplementedError

    def close(self) -> None:
        for one in self._opened:
            one.close()

    def table(
        self, schema: TableSchema, name: str = "", *, applied: int = -1, load: str = "L1", mode: Mode = Mode.MIRROR
    ) -> TargetTable:
        """A new empty target table."""
        table = TargetTable(self.namespace, name or self.called.format(next(NAMES)))
        self.target.apply(table, Create(schema, 1, applied, load, mode))
        return table

    def segment(self, schema: TableSchema, changes: Iterable[Change], version: int = 1) -> Segment:
        return segment(self.storage, schema, changes, version)

    def stage(self, schema: TableSchema, data: pa.Table, version: int = 1) -> Segment:
        return stage(self.storage, schema, data, version)

    def merge(self, table: TargetTable, schema: TableSchema, *changes: Change) -> str:
        return self.target.apply(table, self.change(schema, *changes)).how

    def change(self, schema: TableSchema, *changes: Change) -> Merge:
        staged = self.segment(schema, changes)
        return Merge([staged], schema, staged.last_sequence)

    def filled(self, mode: Mode = Mode.MIRROR) -> TargetTable:
        """A table `KEYED` of two rows, (1, a) and (2, b), with position 1."""
        table = self.table(KEYED, mode=mode)
        self.merge(table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
        return table

    @abstractmethod
    def query(self, sql: str, *values: Any) -> list[Any]:
        """As another program does; at least for statements with a result."""

    @abstractmethod
    def place(self, table: TargetTable) -> str:
        """In a statement."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """A column in a statement."""

    @abstractmethod
    def names(self, table: TargetTable) -> list[str]:
        """Of all columns, as the source calls them; empty where there is no such table."""

    @abstractmethod
    def tables(self) -> set[str]:
        """Of the namespace, those of Tidemark's own among them."""

    @abstractmethod
    def schemas(self) -> set[str]:
        """All that there are."""

    @abstractmethod
    def trouble(self, random: Random) -> None:
        """Something goes wrong with the server, or on the way to it."""

    def spoil(self, sql: str) -> None:
        """Change rows as another program does."""
        self.query(sql)

    def rows(self, table: TargetTable, *, sequence: bool = False) -> list[Row]:
        """In no order; `_sequence_num` only if asked for."""
        names = [name for name in self.names(table) if sequence or name != "_sequence_num"]
        return self.values(table, *names)

    def values(self, table: TargetTable, *names: str, where: str = "") -> list[Row]:
        """Of these columns."""
        listed = ", ".join(map(self.quoted, names))
        found = self.query(f"SELECT {listed} FROM {self.place(table)}{where and f' WHERE {where}'}")
        return [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in found]

    @contextmanager
    def troubled(self) -> Iterator[None]:
        """Again and again, until the block ends."""
        over, random = threading.Event(), Random(3)

        def work() -> None:
            while not over.wait(self.trouble_seconds):
                self.trouble(random)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class PostgresCopies(Copies):
    """See `Copies`."""

    kind = POSTGRES
    trouble_seconds, batches = 0.03, 60

    def __init__(self, server: EmbeddedPostgresSource, folder: Path, keys: str, namespace: str) -> None:
        self.server = server
        settings = {
            "host": server.host, "port": server.port, "database": server.database, "user": server.user,
            "password": server.password, "keys": keys,
        }  # fmt: skip
        super().__init__(settings, folder, namespace)

    def query(self, sql: str, *values: Any) -> list[Any]:
        with self.session() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def session(self) -> Iterator[Any]:
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            yield cursor

    def place(self, table: TargetTable) -> str:
        return f"{self.quoted(table.namespace)}.{self.quoted(table.name)}"

    def quoted(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def names(self, table: TargetTable) -> list[str]:
        return list(self.columns(table))

    def tables(self) -> set[str]:
        found = self.query(f"SELECT relname::text FROM pg_class WHERE relkind = 'r' AND (relnamespace ="
            f" to_regnamespace('{self.namespace}') OR relname LIKE '\\_tidemark\\_stage%')")  # fmt: skip
        return {name for (name,) in found}

    def schemas(self) -> set[str]:
        return {name for (name,) in self.query("SELECT nspname::text FROM pg_namespace")}

    def trouble(self, random: Random) -> None:
        self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark'"
            " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
        )

    def columns(self, table: TargetTable) -> dict[str, str]:
        """Types by name."""
        found = self.query(
            "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(%s)"
            " AND attnum > 0 AND NOT attisdropped ORDER BY attnum", self.place(table)
        )  # fmt: skip
        return dict(found)


class RedshiftCopies(PostgresCopies):
    """The same in a stand-in for Redshift; read from the Postgres behind it."""

    kind = REDSHIFT
    trouble_seconds, batches = 0.5, 15

    def __init__(self, server: EmbeddedRedshift, folder: Path, bucket: str, namespace: str) -> None:
        self.redshift = server
        Copies.__init__(self, server.settings(bucket), folder, namespace)
        to = destination(self.settings)
        key, secret = to.aws.keys
        self._folder = {"Bucket": to.bucket, "Prefix": f"{to.prefix}/"}
        self._store = boto3.client("s3", endpoint_url=to.store, aws_access_key_id=key, aws_secret_access_key=secret,
            region_name="us-east-1")  # fmt: skip

    def files(self) -> list[str]:
        """That are staged."""
        return [one["Key"] for one in self._store.list_objects_v2(**self._folder).get("Contents", ())]

    @contextmanager
    def session(self) -> Iterator[Any]:
        with closing(self.redshift.connect()) as connection, connection.cursor() as cursor:
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
