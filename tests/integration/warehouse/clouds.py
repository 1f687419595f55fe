"""Tables in the stand-ins of Snowflake and BigQuery and in Spanner's emulator, read by the vendors' own clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

from google.api_core.exceptions import NotFound
from snowflake import connector

from replicator.targets.base import Target, TargetTable
from replicator.targets.bigquery.config import destination as bigquery_destination
from replicator.targets.bigquery.connection import BigQuerySession
from replicator.targets.bigquery.dialect import BigQueryDialect
from replicator.targets.bigquery.kind import BIGQUERY
from replicator.targets.snowflake.config import destination as snowflake_destination
from replicator.targets.snowflake.connection import SnowflakeSession
from replicator.targets.snowflake.dialect import SnowflakeDialect
from replicator.targets.snowflake.kind import SNOWFLAKE
from replicator.targets.spanner.config import destination as spanner_destination
from replicator.targets.spanner.kind import CAPABILITIES, IDENTIFIERS, SPANNER
from replicator.targets.spanner.names import column_name
from replicator.targets.spanner.target import open_target
from replicator.targets.spanner.values import Budget
from testing.servers.bigquery.embedded import EmbeddedBigQuery
from testing.servers.snowflake.embedded import EmbeddedSnowflake
from testing.servers.spanner import EmbeddedSpanner
from tests.crash.faults.proxy import Proxy
from tests.integration.warehouse.copies import Copies
from tests.staged import Row

TROUBLES = ("lost", "refused", "unavailable", "limited", "fail", "conflict", "expire")  # of BigQuery's stand-in


class SnowflakeCopies(Copies):
    """See `Copies`."""

    kind = SNOWFLAKE
    stepwise = True
    batches = 10
    called = "T {}"

    def __init__(self, server: EmbeddedSnowflake, folder: Path, namespace: str) -> None:
        self.server, self.dialect = server, SnowflakeDialect(snowflake_destination(server.settings))
        super().__init__(server.settings, folder, namespace)

    def session(self) -> SnowflakeSession:
        return SnowflakeSession(snowflake_destination(self.settings))

    def query(self, sql: str, *values: Any) -> list[Any]:
        assert not values
        with closing(connector.connect(**self.server.options)) as db, db.cursor() as cursor:
            return list(cursor.execute(sql).fetchall())

    def place(self, table: TargetTable) -> str:
        return self.dialect.place(table)

    def quoted(self, name: str) -> str:
        return self.dialect.quoted(name)

    def names(self, table: TargetTable) -> list[str]:
        return self._listed("column_name", "COLUMNS", f" AND table_name = '{table.name}' ORDER BY ordinal_position")

    def tables(self) -> set[str]:
        return set(self._listed("table_name", "TABLES"))

    def schemas(self) -> set[str]:
        found = self.query(f'SELECT schema_name FROM "{self.server.database}".INFORMATION_SCHEMA.SCHEMATA')
        return {name for (name,) in found}

    def _listed(self, what: str, view: str, more: str = "") -> list[str]:
        found = self.query(
            f'SELECT {what} FROM "{self.server.database}".INFORMATION_SCHEMA.{view}'
            f" WHERE table_schema = '{self.namespace}'{more}"
        )
        return [name for (name,) in found]

    def trouble(self, random: Random) -> None:
        urlopen(Request(f"{self.settings['host']}/trouble/cut", method="POST"), timeout=20).close()


class BigQueryCopies(Copies):
    """See `Copies`."""

    kind = BIGQUERY
    stepwise = True
    trouble_seconds, batches = 2.0, 15  # sooner, nothing would ever succeed

    def __init__(self, server: EmbeddedBigQuery, folder: Path, namespace: str) -> None:
        self.server, self.dialect = server, BigQueryDialect(bigquery_destination(server.settings))
        super().__init__(server.settings, folder, namespace)

    def session(self) -> BigQuerySession:
        return BigQuerySession(bigquery_destination(self.settings))

    def close(self) -> None:
        self.ask("none")
        super().close()

    def query(self, sql: str, *values: Any) -> list[Any]:
        assert not values
        with closing(self.server.client()) as client:
            return [row.values() for row in client.query(sql).result()]

    def place(self, table: TargetTable) -> str:
        return self.dialect.place(table)

    def quoted(self, name: str) -> str:
        return self.dialect.quoted(name)

    def names(self, table: TargetTable) -> list[str]:
        try:
            with closing(self.server.client()) as client:
                return [one.name for one in client.get_table(f"{self.server.project}.{table}").schema]
        except NotFound:
            return []

    def tables(self) -> set[str]:
        with closing(self.server.client()) as client:
            return {one.table_id for one in client.list_tables(self.namespace)}

    def schemas(self) -> set[str]:
        with closing(self.server.client()) as client:
            return {one.dataset_id for one in client.list_datasets()}

    def ask(self, what: str, **said: Any) -> None:
        """The stand-in for this trouble; `none`: for an end of all."""
        query = "&".join(f"{name}={value}" for name, value in said.items())
        urlopen(Request(f"{self.server.endpoint}/trouble/{what}?{query}", method="POST"), timeout=20).close()

    def trouble(self, random: Random) -> None:
        self.ask(random.choice(TROUBLES))

    @contextmanager
    def troubled(self) -> Iterator[None]:
        with super().troubled():
            yield
        self.ask("none")


class SpannerCopies(Copies):
    """See `Copies`.  mutations: that a commit takes."""

    kind = SPANNER
    stepwise = renames = True
    trouble_seconds = 0.5
    zeros = (0.0,)

    def __init__(self, spanner: EmbeddedSpanner, folder: Path, namespace: str, mutations: int = 0) -> None:
        self.spanner, self._mutations = spanner, mutations
        super().__init__(spanner.settings, folder, namespace)

    def another_worker(self, replicator: str = "r1") -> Target:
        budget = Budget(self._mutations) if self._mutations else Budget()
        made = open_target(spanner_destination(self.settings), CAPABILITIES, self.storage, replicator, budget)
        self._opened.append(made)
        return made

    def table(self, schema: Any, name: str = "", **how: Any) -> TargetTable:
        return super().table(schema, IDENTIFIERS.legal(name) if name else "", **how)

    @property
    def alive(self) -> bool:
        """Google's emulator crashes now and then when connections are cut."""
        return self.spanner.alive

    def start_again(self) -> None:
        self.spanner.stop()
        self.spanner.start()
        self.settings |= self.spanner.settings
        self.target = self.another_worker()

    def query(self, sql: str, *values: Any) -> list[Any]:
        assert not values
        return self.spanner.query(sql)

    def spoil(self, sql: str) -> None:
        with self.spanner.database_session() as session:
            transaction = session.transaction()
            transaction.begin()
            transaction.execute_update(sql)
            transaction.commit()

    def place(self, table: TargetTable) -> str:
        return f"`{table.namespace}`.`{table.name}`"

    def quoted(self, name: str) -> str:
        return f"`{column_name(name)}`"

    def names(self, table: TargetTable) -> list[str]:
        called = {column_name(name): name for name in [*self._kinds(table), "_sequence_num"]}
        return [called[name] for name in self.columns(table)]

    def columns(self, table: TargetTable) -> dict[str, str]:
        """Types by name."""
        found = self.query(
            "SELECT column_name, spanner_type FROM information_schema.columns WHERE table_schema ="
            f" '{table.namespace}' AND table_name = '{table.name}' ORDER BY ordinal_position"
        )
        return dict(found)

    def tables(self) -> set[str]:
        found = self.query(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{self.namespace}'")
        return {name for (name,) in found}

    def schemas(self) -> set[str]:
        return {name for (name,) in self.query("SELECT schema_name FROM information_schema.schemata")}

    def values(self, table: TargetTable, *names: str, where: str = "") -> list[Row]:
        """Times without a zone as such, as the position says."""
        kinds = {**self._kinds(table), "_sequence_num": ""}
        forms = [FORMS.get(kinds[name].partition("(")[0], _same) for name in names]
        listed = ", ".join(map(self.quoted, names))
        found = self.query(f"SELECT {listed} FROM {self.place(table)} AS t_{where and f' WHERE {where}'}")
        return [
            tuple(None if value is None else form(value) for value, form in zip(row, forms, strict=True))
            for row in found
        ]

    def _kinds(self, table: TargetTable) -> dict[str, str]:
        ((said,),) = self.query(
            f"SELECT columns FROM `{table.namespace}`.tidemark_positions WHERE table_name = '{table.name}'"
        )
        return dict(json.loads(said))

    def trouble(self, random: Random) -> None:
        self._proxy.cut_now() if random.random() < 0.5 else self._proxy.cut(random.randint(1, 300))

    @contextmanager
    def troubled(self) -> Iterator[None]:
        """On the way of workers that begin in the block."""
        host, _, port = self.spanner.address.rpartition(":")
        with Proxy(host, int(port)) as self._proxy:
            self.settings |= {"endpoint": f"http://{self._proxy.host}:{self._proxy.port}"}
            with super().troubled():
                yield


def _same(value: Any) -> Any:
    return value


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "timestamp_ntz": lambda value: value.replace(tzinfo=None),
    "decimal": Decimal,  # wide ones are texts
}
