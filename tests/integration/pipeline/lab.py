"""A live source, a replicator made through the services, and a comparison that shares nothing with the pipeline."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql
from django.core.management import call_command
from pymysql.cursors import Cursor

from replicator.sources.mysql.offset import BinlogOffset
from replicator.verification import Options, TableReport, compare
from webapp.connections import services as connections
from webapp.connections.models import Connection
from webapp.destinations.lakes import copy_config
from webapp.destinations.models import Destination
from webapp.management.commands.verify import pairs, source_reader
from webapp.replicators import selectors, services
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.selection.entries import SelectionEntry


class Lab:
    """One source database and one replicator of it."""

    def __init__(self, address: dict[str, Any], name: str) -> None:
        """`address`: host, port, user, password of an administrator of the live server."""
        self.address = address
        self.name = name
        self.database = name
        self._sql: pymysql.Connection[Cursor] | None = None
        self.execute(f"DROP DATABASE IF EXISTS `{name}`", f"CREATE DATABASE `{name}`")

    # The source

    def connect(self, **more: Any) -> pymysql.Connection[Cursor]:
        """Open a new connection in autocommit; `more` may name the database, else none is selected."""
        settings = {"autocommit": True, "charset": "utf8mb4", "local_infile": True, "ssl_disabled": True}
        return pymysql.connect(**self.address, **settings, **more)

    @property
    def sql(self) -> pymysql.Connection[Cursor]:
        if self._sql is None or not self._sql.open:
            self._sql = self.connect()
        return self._sql

    def execute(self, *statements: str) -> None:
        """Each in autocommit, in the lab's database where it exists already."""
        with self.sql.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            if statements and statements[-1].upper().startswith("CREATE DATABASE"):
                self.sql.select_db(self.database)

    def log_end(self) -> BinlogOffset:
        """Where the next transaction will begin."""
        with self.sql.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, position = (cursor.fetchone() or ("", 0))[:2]
        return BinlogOffset(file, position)

    def close(self) -> None:
        """Leave the server as it was."""
        self.execute(f"DROP DATABASE IF EXISTS `{self.database}`")
        self.sql.close()

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """One transaction on a new connection."""
        connection = self.connect(database=self.database)
        connection.begin()
        try:
            with connection.cursor() as cursor:
                yield cursor
            connection.commit()
        finally:
            connection.close()

    # The replicator

    def connection(self, **changes: Any) -> Connection:
        """The connection under the lab's name."""
        existing = Connection.objects.filter(name=self.name).first()
        config = {**self.address, "tls": "disabled", **changes}
        return existing or connections.create_connection(name=self.name, kind="mysql", config=config, user=None)

    def replicate(
        self,
        *tables: str,
        options: dict[str, Any] | None = None,
        start: bool = True,
        to: Destination | None = None,
        **target: str,
    ) -> Replicator:
        """A replicator of these tables; none: of the whole database with the tables it will get later.

        to: a destination; None: the lakehouse of the installation.  target: settings of the replicator's target.
        """
        selection = [SelectionEntry(self.database, table) for table in tables] or [SelectionEntry(self.database)]
        return services.create_replicator(
            name=self.name,
            connection=self.connection(),
            selection=selection,
            options=options or {},
            destination=to,
            target=target,
            user=None,
            start=start,
        )

    @property
    def replicator(self) -> Replicator:
        return selectors.by_name(self.name)

    def run(self, timeout: float = 120) -> str:
        """Capture, snapshot and merge in this process until current; returns what was printed."""
        out = io.StringIO()
        call_command("run", self.name, until_current=True, timeout=timeout, stdout=out)
        return out.getvalue()

    def table(self, name: str) -> ReplicatorTable:
        return ReplicatorTable.objects.get(replicator=self.replicator, database=self.database, name=name)

    def states(self) -> dict[str, str]:
        rows = ReplicatorTable.objects.filter(replicator=self.replicator)
        return dict(rows.values_list("name", "state"))

    # The proof

    def compare(self, **options: Any) -> list[TableReport]:
        """Row by row, every table that the source still has."""
        replicator = self.replicator
        tables = [t for t in selectors.tables_of(replicator) if t.state != "dropped"]
        source = source_reader(replicator.connection)
        return compare(source, copy_config(replicator.destination), pairs(replicator, tables), Options(**options))

    def assert_equal(self, expected_tables: int | None = None, **options: Any) -> int:
        """All equal; returns the number of rows compared."""
        reports = self.compare(**options)
        unequal = [line for report in reports if not report.equal for line in report.lines()]
        assert not unequal, "\n".join(unequal)
        assert expected_tables is None or len(reports) == expected_tables
        return sum(report.source_rows for report in reports)

    def run_and_compare(self, expected_tables: int | None = None) -> int:
        """Until current, then row by row."""
        self.run()
        return self.assert_equal(expected_tables)


def insert(cursor: Cursor, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """A many-row INSERT."""
    marks = ", ".join(["%s"] * len(rows[0]))
    cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
