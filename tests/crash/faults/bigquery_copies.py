"""BigQuery's stand-in, which has the copies of all histories, what goes wrong with it, and a reader of witness
tables.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from replicator.targets.base import TargetTable
from replicator.targets.bigquery.config import destination
from replicator.targets.bigquery.dialect import BigQueryDialect
from replicator.targets.bigquery.kind import BIGQUERY
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.verification import TargetConfig
from testing.servers.bigquery.embedded import EmbeddedBigQuery
from tests.crash.consistency_checker import APPLIED
from tests.crash.faults.postgres_copies import COLUMNS, CopiesReader, PostgresCopies

TROUBLES = (
    "lost", "lost", "refused", "unavailable", "limited", "fail", "fail", "conflict", "conflict", "cancel", "expire",
    "hang", "fail_late", "fail_late",
)  # fmt: skip
LATE = ("load", "script", "script", "query")
REASONS = ("jobBackendError", "jobRateLimitExceeded", "quotaExceeded", "stopped")
HANG_SECONDS = (0.3, 3.0)


class BigQueryCopies(PostgresCopies):
    """Its tables are in memory: it is never stopped."""

    kind = "bigquery"
    troubles = TROUBLES
    refused = ("BigQuery does not take", "BigQuery keeps for itself", "which ignores case")

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """breaking: held while anything is broken."""
        super().__init__(folder, breaking)
        self.bigquery = EmbeddedBigQuery(folder)

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.bigquery.settings)

    def start(self) -> None:
        self.bigquery.start()

    def _make(self, what: str, chance: random.Random) -> None:
        """Answers are lost, requests refused, jobs fail, transactions conflict, tokens expire."""
        seconds, reason = chance.uniform(*HANG_SECONDS), chance.choice(REASONS)
        self._trouble(what, f"times={chance.randint(1, 3)}&reason={reason}&seconds={seconds}&of={chance.choice(LATE)}")

    def _trouble(self, what: str, said: str = "") -> None:
        with suppress(OSError):
            urlopen(Request(f"{self.bigquery.endpoint}/trouble/{what}?{said}", method="POST"), timeout=10).close()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What has been ordered and not met yet is over, too."""
        with super().quiet():
            self._trouble("none")
            yield

    def _stop(self) -> None:
        self.bigquery.stop()

    def reader(self) -> TargetConfig:
        assert BIGQUERY.verification is not None
        return BIGQUERY.verification(self.settings, NO_LAKE)

    def witnesses(self, namespace: str, writer: Any) -> CopiesReader:
        return BigQueryReader(self, namespace, writer)


class BigQueryReader(CopiesReader):
    """See `CopiesReader`.  A script that reads both tables in one transaction, and ends without a commit."""

    def look(self) -> None:
        """The present state of each table."""
        try:
            with closing(self._copies.bigquery.client()) as client:
                for name in self._seen:
                    self._look(client, name)
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a server that has trouble
            self.trouble = error

    def _look(self, client: Any, name: str) -> None:
        dialect, seen = BigQueryDialect(destination(self._copies.settings)), self._seen[name]
        table = TargetTable(self._namespace, name)
        positions = dialect.positions(table)
        there = {one.table_id for one in client.list_tables(self._namespace)}
        if not {name, positions.name} <= there:
            return
        columns = {one.name for one in client.get_table(f"{client.project}.{self._namespace}.{name}").schema}
        names = [*COLUMNS[name], *(one for one in ("made_at", "made_by", "place") if one in columns)]
        found = client.query(
            "BEGIN TRANSACTION; SELECT p.load, p.applied, p.loaded, p.columns, p.pending,"
            f" t.`_sequence_num` IS NOT NULL, {dialect.listed(names, 't')}"
            f" FROM {dialect.place(positions)} p LEFT JOIN {dialect.place(table)} t ON TRUE;"
        ).result()  # fmt: skip
        lines = [row.values() for row in found]
        if not lines:
            return
        *position, recorded, pending = lines[0][:5]
        if recorded == "{}" or pending or tuple(position) == self._position.get(name):
            return
        if position[0] != seen.uuid:  # made, or made again
            seen.uuid, seen.base = position[0], None
        rows = [dict(zip(names, row[6:], strict=True)) for row in lines if row[5]]
        self._check(seen, rows, {APPLIED: str(position[1])})
        self._position[name] = tuple(position)
        self.states += 1
