"""The servers that a benchmark can copy from."""

from __future__ import annotations

import os
import subprocess
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import psycopg2
import pymysql

from benchmarks.data.debian_mariadb import DebianMariaDB
from benchmarks.data.psql_script import pieces
from testing.servers.tls import offer_tls
from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource

# A sender that is held for a while (postgres_log) must not be taken for one whose reader has gone.
MARIADB_OPTIONS = {"innodb-buffer-pool-size": "1G"}
# A checkpoint for each gigabyte would fill the log with whole pages: 4.8 KB for a change of 100 bytes.
POSTGRES_OPTIONS = {
    "shared_buffers": "1GB", "wal_sender_timeout": "0", "max_wal_size": "16GB", "checkpoint_timeout": "30min",
}  # fmt: skip


class Source(ABC):
    """An embedded server.  A crash of it is not what is measured: the same settings serve reference and Tidemark.

    `database` is what Tidemark calls one: on Postgres a schema.
    """

    kind: ClassVar[str]
    error: ClassVar[type[Exception]]
    quote: ClassVar[str]

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def offer_tls(self) -> None:
        """From now on, to whom wants it."""

    @property
    @abstractmethod
    def config(self) -> dict[str, str]:
        """Of a connection."""

    @abstractmethod
    def connect(self, database: str) -> Any:
        """A DB-API connection whose statements are in the database, without autocommit."""

    @abstractmethod
    def discard(self, database: str, tables: list[str]) -> None:
        """Read all rows as a plain client does and throw them away."""

    @abstractmethod
    def tables(self, database: str) -> list[str]:
        """Those that are not part of another one."""

    def count(self, database: str) -> int:
        """Exact number of rows."""
        total = 0
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            for table in self.tables(database):
                cursor.execute(f"SELECT COUNT(*) FROM {self.quote}{table}{self.quote}")
                total += cursor.fetchone()[0]
        return total

    def _names(self, query: str, database: str) -> list[str]:
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(query, (database,))
            return [str(name) for (name,) in cursor.fetchall()]


class MariaDBSource(Source):
    """Its own client program reads and loads."""

    kind, error, quote = "mysql", pymysql.MySQLError, "`"

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedMariaDB(folder / "mariadb", options=MARIADB_OPTIONS)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def offer_tls(self) -> None:
        """Restart with Debian's server, which offers TLS, in a separate folder."""
        self.stop()
        folder = self._server.folder.with_name("mariadb-of-debian")
        self._server = DebianMariaDB(folder, self._server.port, options=MARIADB_OPTIONS)
        self.start()

    @property
    def address(self) -> dict[str, Any]:
        """host, port, user, password, for pymysql.connect."""
        return self._server.address

    @property
    def config(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.address.items()}

    def connect(self, database: str) -> Any:
        return pymysql.connect(**self._server.address, database=database, charset="utf8mb4")

    def tables(self, database: str) -> list[str]:
        return self._names(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'",
            database,
        )

    def discard(self, database: str, tables: list[str]) -> None:
        select = ";".join(f"SELECT * FROM `{table}`" for table in tables)
        self.client("--quick", "--batch", "--execute", select, database, stdout=subprocess.DEVNULL)

    def client(self, *arguments: str, **options: Any) -> None:
        """The `mariadb` client, connected."""
        address = self._server.address
        program = cache_folder() / "mariadb-11.4.5" / "bin" / "mariadb"
        connect = [f"--host={address['host']}", f"--port={address['port']}", f"--user={address['user']}"]
        rest = ["--local-infile=1", "--skip-ssl", "--default-character-set=utf8mb4", *arguments]
        environment = {**os.environ, "MYSQL_PWD": address["password"]}
        subprocess.run([str(program), "--no-defaults", *connect, *rest], env=environment, check=True, **options)


class PostgresSource(Source):
    """The floor is COPY, the fastest that its clients have; the archive brings no psql."""

    kind, error, quote = "postgres", psycopg2.Error, '"'

    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgresSource(folder / "postgres-source", options=POSTGRES_OPTIONS)

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def offer_tls(self) -> None:
        offer_tls(self._server)

    @property
    def config(self) -> dict[str, str]:
        address = {name: str(value) for name, value in self._server.address.items()}
        return {"database": address.pop("dbname"), **address}

    def connect(self, database: str) -> Any:
        return psycopg2.connect(**self._server.address, options=f"-c search_path={database}")

    def tables(self, database: str) -> list[str]:
        return self._names(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') "
            "AND NOT relispartition",
            database,
        )

    def discard(self, database: str, tables: list[str]) -> None:
        nowhere = Path(os.devnull)
        with closing(self.connect(database)) as connection, connection.cursor() as cursor, nowhere.open("wb") as file:
            for table in tables:
                cursor.copy_expert(f'COPY "{table}" TO STDOUT', file)

    def run_script(self, database: str, script: Path) -> None:
        """A new schema, filled by a script for psql."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {database}")
            for piece in pieces(script):
                cursor.execute(piece)
            connection.commit()

    def load_csv(self, database: str, table: str, file: Path) -> None:
        """With a header."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor, file.open("rb") as rows:
            cursor.copy_expert(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)", rows)
            connection.commit()
