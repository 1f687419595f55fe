"""The database of the installation's own Iceberg catalog: a reader of the lakehouse reads it, and nothing else.

`migrate` makes it, and moves there what stood in the metadata database before there was one (ADR 41).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
from psycopg2 import errors, sql
from psycopg2.extras import execute_values

from replicator.errors import ConfigurationError
from webapp import environment

TABLES = ("iceberg_tables", "iceberg_namespace_properties")
MAKE = """
CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL,
table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000),
iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name));
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255)
NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY (catalog_name, namespace, property_key))
"""  # as Iceberg 1.12 makes them (`JdbcUtil`, V1), which fails where two processes begin at once
MOVED = (
    "INSERT INTO iceberg_namespace_properties VALUES ('tidemark', 'moved', %s, now()::text) ON CONFLICT DO NOTHING"
    " RETURNING 1"
)  # a row that no catalog reads: rows are moved only once, even if the old database is restored later
LOCK_SECONDS = 60


def prepare(metadata_url: str, catalog_url: str) -> None:
    """Make the database and its two tables where they are not there, and move the rows of before.

    ConfigurationError that says what to do.
    """
    if not _names_another(metadata_url, catalog_url):
        return  # its migrations make the tables
    _create(metadata_url, catalog_url)
    with _connected(catalog_url) as catalog, catalog.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(7406091)")  # one at a time
        cursor.execute(MAKE)
        with _connected(metadata_url) as metadata, metadata.cursor() as old:
            _move(old, cursor, str(environment.database(metadata_url)["NAME"]))
            catalog.commit()  # before the old tables are gone


def _names_another(metadata_url: str, catalog_url: str) -> bool:
    one, other = environment.database(metadata_url), environment.database(catalog_url)
    return any(one[name] != other[name] for name in ("HOST", "PORT", "NAME"))


def _create(metadata_url: str, catalog_url: str) -> None:
    name = str(environment.database(catalog_url)["NAME"])
    try:
        psycopg2.connect(catalog_url).close()
    except psycopg2.OperationalError as error:
        if "does not exist" not in str(error):
            message = f"The database of TIDEMARK_CATALOG_URL does not answer: {str(error).strip()}"
            raise ConfigurationError(message) from None
    else:
        return
    with closing(psycopg2.connect(metadata_url)) as server, server.cursor() as cursor:
        server.autocommit = True
        try:
            cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except (errors.DuplicateDatabase, errors.UniqueViolation):
            return  # by another one at the same time
        except psycopg2.Error as error:
            raise ConfigurationError(
                f"The catalog database {name} of the lakehouse cannot be created: {str(error).strip()}",
                remedy=f"Create it (CREATE DATABASE {name}), or set TIDEMARK_CATALOG_URL to the value of DATABASE_URL:"
                " the catalog is then stored beside users and secrets.",
            ) from None
        cursor.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))


def _move(old: Any, new: Any, name: str) -> None:
    """name: of the database where they were."""
    old.execute("SELECT to_regclass('public.iceberg_tables') IS NOT NULL")
    if old.fetchone() != (True,):
        return
    old.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
    try:
        old.execute(f"LOCK TABLE {', '.join(TABLES)}")
    except errors.LockNotAvailable:
        message = "The catalog of the lakehouse is in use."
        raise ConfigurationError(message, remedy="Stop the workers, and migrate again.") from None
    new.execute(MOVED, [name])
    if new.fetchone():
        for table in TABLES:
            old.execute(f"SELECT * FROM {table}")
            columns = ", ".join(column.name for column in old.description)
            try:
                execute_values(new, f"INSERT INTO {table} ({columns}) VALUES %s", old.fetchall())
            except errors.UniqueViolation:
                message = "The database of TIDEMARK_CATALOG_URL has the catalog of another installation."
                raise ConfigurationError(
                    message, remedy="Set TIDEMARK_CATALOG_URL to a database that only this installation uses."
                ) from None
    old.execute(f"DROP TABLE {', '.join(TABLES)}")


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """One transaction."""
    with closing(psycopg2.connect(url)) as connection, connection:
        yield connection
