"""A source that exists in memory only, and replicators on the real metadata Postgres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from replicator.errors import ConditionRefused
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import EXACT_NAMES, NameRule
from replicator.model.types import BIGINT, STRING
from replicator.sources import registry
from replicator.sources.base import CheckResult, CheckStatus, DatabaseInfo, FormField, KeyRange, SourceState, TableInfo
from replicator.state.journal import Checkpoint, JournalEntry, Segment, SegmentKind
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.replicators import services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry
from webapp.worker.lease.lease_store import OrmLeaseStore
from webapp.worker.store.journal import OrmJournal

FORM = (
    FormField("host", "Host", default="localhost"),
    FormField("port", "Port", "number", default="3306"),
    FormField("password", "Password", "password", secret=True),
)
SECRET = "s3cret-of-the-source"
WORDS = "The next row of tidemark.watermark"
ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")
TABLES = (ORDERS, ITEMS)


def schema_of(table: TableId, *, key: tuple[str, ...] = ("id",), extra: tuple[str, ...] = ()) -> TableSchema:
    """id, name and `extra` text columns."""
    columns = [Column("id", BIGINT, nullable=False, source_type="bigint")]
    columns += [Column(name, STRING, nullable=True, source_type="text") for name in ("name", *extra)]
    return TableSchema(table, tuple(columns), key)


@dataclass(frozen=True, order=True)
class Place:
    """An offset."""

    at: int

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "memory", "at": self.at}

    def covers(self, other: Place) -> bool:
        return not self < other

    def __str__(self) -> str:
        return str(self.at)


class MemoryCatalog:
    """Of two tables."""

    def databases(self) -> list[DatabaseInfo]:
        return [DatabaseInfo("shop", 2, 0)]

    def tables(
        self, *, database: str | None = None, search: str = "", limit: int = 100, offset: int = 0
    ) -> tuple[list[TableInfo], int]:
        del search
        found = [TableInfo(t, 10, 100, "primary") for t in sorted(TABLES) if database in {None, t.database}]
        return found[offset : offset + limit], len(found)

    def infos(self, tables: Sequence[TableId]) -> dict[TableId, TableInfo]:
        return {info.table: info for info in self.tables()[0] if info.table in tables}

    def try_rows(self, table: TableId, rows: KeyRange) -> None:
        del table
        if "nothing" in rows.condition:
            raise ConditionRefused("The source rejected the request: there is no column nothing.")

    def describe(self, tables: Sequence[TableId]) -> dict[TableId, TableSchema]:
        return {table: schema_of(table) for table in tables if table in TABLES}


class MemorySource:
    """Two tables of one database."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def check(self, tables: object = None) -> list[CheckResult]:
        del tables
        detail = f"{WORDS} (tried memory://me:{self.config['password']}@{self.config['host']}/)"
        return [CheckResult("login", "Login", CheckStatus.FAILED, detail, f"IDENTIFIED BY '{self.config['password']}'")]

    def names(self) -> NameRule:
        return EXACT_NAMES

    def catalog(self) -> MemoryCatalog:
        return MemoryCatalog()

    def log(self, replicator: str) -> MemorySource:
        del replicator
        return self

    def state(self) -> SourceState:
        return SourceState(Place(1), "server-1", datetime.now(UTC))

    def prepare(self, tables: object, *, first: bool, waiting: object = None) -> SourceState:
        del tables, first, waiting
        return self.state()

    def remove(self) -> None:
        """Nothing was made."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def memory_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source kind `memory`."""
    kind = registry.SourceKind("memory", "Memory", MemorySource, lambda data: Place(data["at"]), FORM, "")
    monkeypatch.setitem(registry.KINDS, "memory", kind)


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_superuser("ann")


@pytest.fixture
def connection(db: None) -> Connection:
    return connections.create_connection(
        name="shop source", kind="memory", config={"host": "db.example", "password": SECRET}
    )


@pytest.fixture
def make(connection: Connection) -> Any:
    """make(name="r", tables=(…), **options) -> a started replicator."""

    def _make(name: str = "shop", tables: Sequence[TableId] = (ORDERS,), **options: Any) -> Replicator:
        return services.create_replicator(
            name=name,
            connection=connection,
            selection=[SelectionEntry(t.database, t.name) for t in tables],
            options=ReplicatorOptions.from_dict(options),
            start=True,
        )

    return _make


class Captured:
    """Plays capture: commits entries under a lease."""

    def __init__(self, replicator: Replicator) -> None:
        self.replicator = replicator
        self.journal = OrmJournal(replicator.pk, MemorySource({"password": SECRET}))
        lease = OrmLeaseStore().acquire(f"capture:{replicator.pk}", "test")
        assert lease is not None
        self.lease = lease
        self.at = 1

    def begin(self) -> None:
        """What run_capture does first: the checkpoint, and the tables it follows."""
        plan = self.journal.plan()
        self.commit(next_sequence=plan.checkpoint.next_sequence if plan.checkpoint else 0)
        plan = self.journal.plan()
        tracking = frozenset(tracked.table for tracked in plan.tracked)
        assert plan.checkpoint is not None
        self.commit(next_sequence=plan.checkpoint.next_sequence, tracking=tracking)

    def commit(self, *, next_sequence: int, **parts: Any) -> None:
        """One journal entry that ends at `next_sequence`."""
        self.at += 1
        checkpoint = Checkpoint(Place(self.at).to_dict(), next_sequence, "server-1")
        self.journal.commit(self.lease, JournalEntry(checkpoint=checkpoint, **parts))

    def row(self, table: TableId) -> ReplicatorTable:
        return ReplicatorTable.objects.get(replicator=self.replicator, database=table.database, name=table.name)


@pytest.fixture
def captured(make: Any) -> Captured:
    """A replicator of `shop.orders` whose capture has begun."""
    capture = Captured(make())
    capture.begin()
    return capture


def segment(table: TableId, first: int, last: int, *, version: int = 1, kind: SegmentKind = SegmentKind.LOG) -> Segment:
    """A staged file that does not exist."""
    moment = datetime.now(UTC) if kind is SegmentKind.LOG else None
    rows = last - first + 1
    return Segment(
        table=table,
        kind=kind,
        schema_version=version,
        first_sequence=first,
        last_sequence=last,
        path=f"r/{table}/{first}-{kind}.parquet",
        rows=rows,
        size=100,
        inserts=rows if kind is SegmentKind.LOG else 0,
        reads=0 if kind is SegmentKind.LOG else rows,
        first_commit_ts=moment,
        last_commit_ts=moment,
    )
