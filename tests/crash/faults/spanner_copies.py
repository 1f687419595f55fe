"""Spanner's emulator, which has the copies of all histories; what goes wrong with it; a reader of witness tables."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.cloud.spanner_v1 import KeySet

from replicator.verification import SpannerConfig
from testing.servers.spanner import EmbeddedSpanner
from tests.crash.consistency_checker import APPLIED
from tests.crash.faults.postgres_copies import COLUMNS, CopiesReader, PostgresCopies
from tests.crash.faults.proxy import Proxy

TROUBLES = ("cut", "cut", "cut in an answer", "cut in an answer", "hang", "refuse", "other transaction")
SECONDS = (0.3, 3.0)
ANSWER_BYTES = 400
REFUSED = ("which ignores case", "a table of Spanner has", "Spanner takes")


class SpannerCopies(PostgresCopies):
    """Its tables are in memory: it is never stopped.  Workers reach it through a proxy."""

    kind = "spanner"
    troubles = TROUBLES
    refused = REFUSED

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """breaking: held while anything is broken."""
        super().__init__(folder, breaking)
        self.spanner = EmbeddedSpanner(folder, options=["--enable_fault_injection"])  # it aborts commits, too
        self._proxy: Proxy | None = None

    @property
    def settings(self) -> dict[str, Any]:
        assert self._proxy is not None
        return {**self.spanner.settings, "endpoint": f"http://{self._proxy.host}:{self._proxy.port}"}

    def start(self) -> None:
        self.spanner.start()
        host, _, port = self.spanner.address.rpartition(":")
        self._proxy = Proxy(host, int(port))

    def _make(self, what: str, chance: random.Random) -> None:
        assert self._proxy is not None
        seconds = chance.uniform(*SECONDS)
        match what:
            case "cut":
                self._proxy.cut_now()
            case "cut in an answer":
                self._proxy.cut(chance.randint(1, ANSWER_BYTES))
            case "hang":
                self._proxy.hang(seconds)
            case "refuse":
                self._proxy.refuse(seconds)
                self._proxy.cut_now()
            case _:
                self._be_in_the_way(seconds)

    def _be_in_the_way(self, seconds: float) -> None:
        """The emulator has one read-write transaction at a time: it aborts this one, or those of workers."""
        with suppress(GoogleAPICallError, ValueError), self.spanner.database_session() as session:
            transaction = session.transaction()
            transaction.begin()
            list(transaction.execute_sql("SELECT 1"))
            self._over.wait(seconds)
            transaction.rollback()

    def _stop(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
        self.spanner.stop()

    def reader(self) -> SpannerConfig:  # type: ignore[override]
        one = self.spanner
        return SpannerConfig(one.project, one.instance, one.database, one.address)

    def witnesses(self, namespace: str, writer: Any) -> CopiesReader:
        return SpannerReader(self, namespace, writer)


class SpannerReader(CopiesReader):
    """See `CopiesReader`."""

    def look(self) -> None:
        """The present state of each table, with its position."""
        try:
            for name in self._seen:
                with self._copies.spanner.snapshot() as snapshot:
                    self._look(snapshot, name)
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a server that has cut it off
            self.trouble = error

    def _look(self, snapshot: Any, name: str) -> None:
        seen = self._seen[name]
        found = [column for (column,) in snapshot.execute_sql(
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{self._namespace}'"
            f" AND table_name = '{name}'"
        )]  # fmt: skip
        if not found:
            return
        said = ["load", "applied", "loaded", "columns", "pending"]
        rows = list(snapshot.read(f"{self._namespace}.tidemark_positions", said, KeySet(keys=[[name]])))
        if not rows:
            return
        ((*position, recorded, pending),) = rows
        if recorded == "{}" or pending or tuple(position) == self._position.get(name):
            return
        if position[0] != seen.uuid:  # made, or made again
            seen.uuid, seen.base = position[0], None
        names = [*COLUMNS[name], *(one for one in ("made_at", "made_by", "place") if one in found)]
        listed = ", ".join(f"`{one}`" for one in names)
        copy = [dict(zip(names, row, strict=True))
            for row in snapshot.execute_sql(f"SELECT {listed} FROM `{self._namespace}`.`{name}` AS t_")]  # fmt: skip
        self._check(seen, copy, {APPLIED: str(position[1])})
        self._position[name] = tuple(position)
        self.states += 1
