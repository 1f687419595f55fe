"""Merges into each warehouse: their duration, their statements, and the bytes that they send.

In the same run, the same server bulk-loads as many rows for comparison.  Postgres is a production server and Spanner
the vendor's emulator; the others are stand-ins, whose seconds say nothing about the products.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.lake.merging import COLUMNS, MergedTable
from benchmarks.lake.relay import Relay
from benchmarks.report import Row
from replicator.model.schema import SEQUENCE
from replicator.model.types import DataType
from webapp.embedded.ports import LOOPBACK, free_port

ROWS, WARM = 200_000, 2
KEYS = {1_000: 5, 100_000: 2}  # changes of a merge, and how many of it
SLICE = 2_000  # rows of one commit that Spanner takes
TITLES = {
    "postgres": "Postgres", "redshift": "Redshift's stand-in", "snowflake": "Snowflake's stand-in",
    "bigquery": "BigQuery's stand-in", "spanner": "Spanner's emulator",
}  # fmt: skip
ASKING = ("execute", "query", "read", "read_values", "select", "load", "define", "transact")


class Place:
    """A running server, and a target in it whose statements and bytes are counted."""

    def __init__(self, kind: str, settings: Mapping[str, Any], stack: ExitStack) -> None:
        from replicator.targets.kind import Opening
        from replicator.targets.registry import target_kind
        from webapp.replicators.staging import storage

        self.statements = 0
        self._relays = list[Relay]()
        lake: Any = None
        self._settings = self._relayed(settings, stack)
        opening = Opening(lake, lake, storage(), "bench", self._settings, "mysql")
        self.target: Any = target_kind(kind).open(opening)
        stack.callback(self.target.close)
        self.dialect = self.target._dialect  # noqa: SLF001 - its sessions are counted
        connect = self.dialect.connect
        self.dialect.connect = lambda: self._counted(connect())

    @property
    def sent(self) -> int:
        """Bytes, so far."""
        return sum(one.sent for one in self._relays)

    def _relayed(self, settings: Mapping[str, Any], stack: ExitStack) -> dict[str, Any]:
        found = dict(settings)
        for name in ("host", "endpoint", "store_endpoint"):
            scheme, _, address = str(settings.get(name, "")).rpartition("://")
            if not address:
                continue
            relay = Relay(int(address.rpartition(":")[2] if scheme else settings["port"]))
            stack.callback(relay.close)
            self._relays.append(relay)
            found |= {name: f"{scheme}://{LOOPBACK}:{relay.port}"} if scheme else {"port": str(relay.port)}
        return found

    def _counted(self, session: Any) -> Any:
        """Each call counts that makes no other one."""

        def counting(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*args: Any, **named: Any) -> Any:
                before = self.statements
                found = call(*args, **named)
                self.statements += self.statements == before
                return found

            return counted

        for name in ASKING:
            if hasattr(session, name):
                setattr(session, name, counting(getattr(session, name)))
        return session

    def bulk(self, rows: pa.Table) -> tuple[float, int]:
        """Seconds and bytes of a load into an empty table."""
        from replicator.model.identifiers import TableId
        from replicator.model.schema import Column, TableSchema
        from replicator.targets.base import Create, TargetTable

        columns = tuple(Column(name, DataType.parse(kind), name != "id", kind) for name, kind in COLUMNS.items())
        table = TargetTable("bench_merge", f"bulk_{free_port()}")
        schema = TableSchema(TableId("bench_merge", table.name), columns, ("id",))
        self.target.apply(table, Create(schema, 1, -1, "load"))
        with closing(self.dialect.connect()) as session:
            before, started = self.sent, time.monotonic()
            if hasattr(session, "load"):
                session.load(self.dialect.place(table), rows, table)
            else:
                _put(self._settings, table, rows)
            took = time.monotonic() - started
        return took, self.sent - before

    def count(self, table: str) -> int:
        """Rows."""
        from replicator.targets.base import TargetTable

        with closing(self.dialect.connect()) as session:
            place = self.dialect.place(TargetTable("bench_merge", table))
            return int(session.query(f"SELECT COUNT(*) FROM {place}")[0][0])


def _put(settings: Mapping[str, Any], table: Any, rows: pa.Table) -> None:
    """As mutations, by Spanner's own client."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.spanner import Client

    address = {"api_endpoint": settings["endpoint"].removeprefix("http://")}
    client = Client(settings["project"], AnonymousCredentials(), client_options=address, disable_builtin_metrics=True)
    session = client.instance(settings["instance"]).database(settings["database"]).session()
    session.create()
    names = ["tidemark_sequence_num" if name == SEQUENCE else name for name in rows.column_names]
    for start in range(0, rows.num_rows, SLICE):
        transaction = session.transaction()
        transaction.begin()
        values = [list(row.values()) for row in rows.slice(start, SLICE).to_pylist()]
        transaction.insert(f"{table.namespace}.{table.name}", names, values)
        transaction.commit()
    session.delete()


def run(world: World[Any], rows: int | None, repeats: int) -> list[Row]:
    """`rows` of each table; repeats: of merges of 1,000 changes."""
    found = []
    for kind, title in TITLES.items():
        with ExitStack() as stack:
            found += _measured(world, kind, title, rows or ROWS, repeats, stack)
    return found


def _measured(world: World[Any], kind: str, title: str, rows: int, repeats: int, stack: ExitStack) -> list[Row]:
    from webapp.demo.warehouses import WAREHOUSES

    server = stack.enter_context(WAREHOUSES[kind](world.folder / f"to-{kind}", free_port()))
    place = Place(kind, server.settings, stack)
    table = MergedTable(place.target, None, "merged", rows)
    table.merges(min(KEYS), WARM)
    found, bulk = [], 0
    for keys, times in KEYS.items():
        if 3 * keys > 2 * rows:
            continue
        statements, sent = place.statements, place.sent
        times = repeats if keys == min(KEYS) else times  # noqa: PLW2901
        merged = table.merges(keys, times)
        statements, sent = (place.statements - statements) // times, (place.sent - sent) // times
        loads = [place.bulk(_rows(keys, bulk := bulk + 1)) for _ in range(times)]
        floor, floor_sent = (statistics.median(one) for one in zip(*loads, strict=True))
        name = f"warehouses: {keys // 1000}k changes into {rows / 1000:g}k rows of {title}"
        say(f"{name}: {merged.median:.2f} s, {statements} statements, {sent:,} bytes; bulk {floor:.2f} s")
        found += [
            Row(f"{name}, and a bulk load of as many rows", merged.median, floor, "none", met=True, unit="s"),
            Row(
                f"{name}: bytes sent, and of the bulk load",
                sent / 1024,
                floor_sent / 1024,
                "none",
                met=True,
                unit="KiB",
            ),
            Row(f"{name}: {ASKED.get(kind, 'statements')}", statements, None, "none", met=True),
        ]
    off = abs(place.count("merged") - table.held)
    return [*found, Row(f"warehouses: rows of {title} too many or too few after all", off, None, "0", off == 0)]


ASKED = {"spanner": "queries, reads and transactions"}


def _rows(count: int, seed: int) -> pa.Table:
    """As a merge would stage them: all columns, and the number."""
    values = MergedTable.values(np.arange(count), seed)
    kinds = [DataType.parse(kind).arrow for kind in COLUMNS.values()]
    arrays = [pa.array(one, kind) if isinstance(one, np.ndarray) else one.cast(kind)
        for one, kind in zip(values, kinds, strict=True)]  # fmt: skip
    return pa.table([*arrays, pa.array(np.arange(count))], names=[*COLUMNS, SEQUENCE])
