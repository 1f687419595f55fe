"""A server that has the copies of all histories, what goes wrong with it, and a reader of witness tables."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2

from replicator.targets.base import TargetTable
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.redshift.config import destination
from replicator.targets.redshift.dialect import RedshiftDialect
from replicator.targets.redshift.kind import REDSHIFT
from replicator.targets.warehouse.dialect import POSITIONS
from replicator.verification import DatabaseConfig, SourceConfig, TargetConfig
from testing.servers.redshift import EmbeddedRedshift
from tests.crash.consistency_checker import APPLIED, KEYED, KEYLESS, Looked, Writer
from tests.crash.faults.store import S3Store
from webapp.embedded.postgres_source import EmbeddedPostgresSource

EVERY_SECONDS = (0.5, 4.0)
AWAY_SECONDS = (0.3, 3.0)
LOCK_SECONDS = (0.5, 3.0)
STORES_PART = 0.25  # of the troubles, where there is a store
TROUBLES = ("cut", "cut", "cut", "cancel", "cancel", "lock", "fast restart", "crash")
OURS = "usename = current_user AND application_name = 'tidemark' AND pid <> pg_backend_pid()"
# Errors for what the server cannot store: text with NUL (also from bytes that become text), long or quoted names.
REFUSED = ("NUL character", "more than 63 bytes", "more than 127 bytes", "quotation mark", "Redshift takes")
COLUMNS = {KEYED: ("id", "v", "amount", "stamp"), KEYLESS: ("t", "n")}


class PostgresCopies:
    """`trouble` breaks it until `stop`."""

    kind = "postgres"
    troubles: Sequence[str] = TROUBLES
    refused: Sequence[str] = REFUSED

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """breaking: held while anything is broken."""
        self.server = EmbeddedPostgresSource(folder, options={"wal_level": "replica"})
        self.made = Counter[str]()
        self.folder = folder.with_name("no-files")  # a folder that does not exist: the tables have none
        self._breaking, self._over, self._quiet = breaking, threading.Event(), 0

    @property
    def settings(self) -> dict[str, Any]:
        """A destination's."""
        return {
            "host": self.server.host, "port": str(self.server.port), "database": self.server.database,
            "user": self.server.user, "password": self.server.password, "keys": "enforced",
        }  # fmt: skip

    def start(self) -> None:
        self.server.start()

    def connect(self) -> Any:
        """Autocommit."""
        return self.server.connect()

    def positions(self, table: str) -> str:
        """Which table has the position of a table."""
        del table
        return POSITIONS

    def trouble(self) -> None:
        """Connections that are cut, statements that are cancelled, readers that lock, a server that goes away."""
        chance = random.Random("copies")
        while not self._over.wait(chance.uniform(*EVERY_SECONDS)):
            with self._breaking:
                if self._quiet or self._over.is_set():
                    continue
                what = chance.choice(self.troubles)
                self.made[f"copies, {what}"] += 1
                with suppress(psycopg2.Error):
                    self._make(what, chance)

    def _make(self, what: str, chance: random.Random) -> None:
        match what:
            case "cut":
                self._execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OURS}")
            case "cancel":
                self._execute(f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {OURS} AND state <> 'idle'")
            case "lock":
                self._lock(chance)
            case _:
                self.server.stop(signal.SIGKILL if what == "crash" else signal.SIGINT)
                self._over.wait(chance.uniform(*AWAY_SECONDS))
                self.server.start()

    def _lock(self, chance: random.Random) -> None:
        """A reader that holds a table in the midst of its transaction."""
        with closing(self.connect()) as db, db.cursor() as cursor:
            cursor.execute(
                "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c JOIN pg_namespace n"
                " ON n.oid = c.relnamespace WHERE c.relname IN (%s, %s)", (KEYED, KEYLESS)
            )  # fmt: skip
            if found := cursor.fetchall():
                cursor.execute(f"BEGIN; LOCK TABLE {chance.choice(found)[0]} IN SHARE MODE")
                self._over.wait(chance.uniform(*LOCK_SECONDS))

    def _execute(self, sql: str) -> None:
        with closing(self.connect()) as db, db.cursor() as cursor:
            cursor.execute(sql)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """No trouble inside the block: a history comes to its end."""
        with self._breaking:
            self._quiet += 1
        try:
            yield
        finally:
            with self._breaking:
                self._quiet -= 1

    def stop(self) -> None:
        self._over.set()
        with self._breaking:
            self._stop()

    def _stop(self) -> None:
        self.server.stop(signal.SIGKILL)

    def witnesses(self, namespace: str, writer: Writer) -> CopiesReader:
        """A reader of the witness tables."""
        return CopiesReader(self, namespace, writer)

    def reader(self) -> TargetConfig:
        """As verification opens it."""
        one = self.server
        return DatabaseConfig(SourceConfig(one.host, one.port, one.user, one.password, database=one.database))


class RedshiftCopies(PostgresCopies):
    """A stand-in for Redshift, and a store that has its faults, too."""

    kind = "redshift"

    def __init__(self, folder: Path, breaking: threading.Lock) -> None:
        """See `PostgresCopies`."""
        super().__init__(folder, breaking)
        self._store = S3Store(folder.with_name("copies-store"))
        self._redshift: EmbeddedRedshift | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """A destination's."""
        assert self._redshift is not None
        return self._redshift.settings(f"{self._store.url}/copies", **self._store.settings(troubled=True))

    def start(self) -> None:
        super().start()
        self._store.start()
        own = self._store.settings(troubled=False)
        self._redshift = EmbeddedRedshift(self.server, {
            "AWS_ENDPOINT_URL": own["store_endpoint"], "AWS_ACCESS_KEY_ID": own["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": own["secret_access_key"],
        })  # fmt: skip
        self._redshift.start()

    def connect(self) -> Any:
        assert self._redshift is not None
        return self._redshift.connect()

    def positions(self, table: str) -> str:
        return RedshiftDialect(destination(self.settings)).positions(TargetTable("", table)).name

    def _make(self, what: str, chance: random.Random) -> None:
        """One in four is the store's."""
        if chance.random() < STORES_PART:
            name, act = chance.choice(sorted(self._store.troubles(chance).items()))
            self.made[name] += 1
            act()
            return
        super()._make(what, chance)

    def stop(self) -> None:
        super().stop()
        self._store.stop()

    def reader(self) -> TargetConfig:
        assert REDSHIFT.verification is not None
        return REDSHIFT.verification(self.settings, NO_LAKE)


class CopiesReader(Looked):
    """Looks at rows and position in one state, in flight and once more at the end."""

    def __init__(self, copies: PostgresCopies, namespace: str, writer: Writer) -> None:
        super().__init__(writer)
        self._copies, self._namespace = copies, namespace
        self._position: dict[str, Any] = {}

    def look(self) -> None:
        """The present state of each table."""
        try:
            with closing(self._copies.connect()) as db:
                db.set_session("REPEATABLE READ", autocommit=False)
                for name in self._seen:
                    with db, db.cursor() as cursor:
                        self._look(cursor, name)
        except AssertionError as error:
            self.violations.append(str(error))
        except Exception as error:  # noqa: BLE001 - a server that is away
            self.trouble = error

    def _look(self, cursor: Any, name: str) -> None:
        place, seen = f'"{self._namespace}"."{name}"', self._seen[name]
        positions = f'"{self._namespace}".{self._copies.positions(name)}'
        cursor.execute("SELECT to_regclass(%s), to_regclass(%s)", (place, positions))
        if None in cursor.fetchone():
            return
        cursor.execute(f"SELECT load, applied, loaded FROM {positions} WHERE table_name = %s", (name,))
        position = cursor.fetchone()
        if position is None or position == self._position.get(name):
            return
        if position[0] != seen.uuid:  # made, or made again
            seen.uuid, seen.base = position[0], None
        more = self._computed_columns(cursor, name)
        names = [*COLUMNS[name], *more]
        cursor.execute(f"SELECT {', '.join(names)} FROM {place}")
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        self._check(seen, rows, {APPLIED: str(position[1])})
        self._position[name] = position
        self.states += 1

    def _computed_columns(self, cursor: Any, name: str) -> list[str]:
        cursor.execute(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
            " AND column_name IN ('made_at', 'made_by', 'place')", (self._namespace, name)
        )  # fmt: skip
        return [one for (one,) in cursor.fetchall()]
