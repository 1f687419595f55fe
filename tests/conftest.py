"""Live servers for the tests: embedded, started on first use, ended with the run."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
from django.conf import settings
from django.db import connection
from django.test import TransactionTestCase
from pytest_django.plugin import DjangoDbBlocker

from testing.servers.mysql import EmbeddedMySQL
from testing.servers.oracle.server.embedded import EmbeddedOracle
from testing.servers.stores.s3 import EmbeddedS3
from tests.database import migrated
from tests.environment import HOME, POSTGRES
from webapp import environment
from webapp.embedded.java_artifacts import MARIADB_SOURCE
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import VERSION, EmbeddedPostgresSource
from webapp.embedded.redis import EmbeddedRedis
from webapp.installation import catalog_database

if TYPE_CHECKING:
    from _pytest.fixtures import SubRequest

    from testing.servers.bigquery.embedded import EmbeddedBigQuery
    from testing.servers.glue import EmbeddedGlue
    from testing.servers.hive import EmbeddedHive
    from testing.servers.iceberg_rest import EmbeddedRestCatalog
    from testing.servers.kafka import EmbeddedKafka
    from testing.servers.redshift import EmbeddedRedshift
    from testing.servers.snowflake.embedded import EmbeddedSnowflake
    from testing.servers.spanner import EmbeddedSpanner
    from testing.servers.sqlserver.availability_group import AvailabilityGroup
    from testing.servers.sqlserver.embedded import EmbeddedSQLServer
    from testing.servers.stores.azure import EmbeddedAzure
    from testing.servers.stores.gcs import EmbeddedGcs
    from tests.integration.kafka.security import Authority
    from tests.integration.spark.lake import Lake

_Server = TypeVar("_Server", EmbeddedMariaDB, EmbeddedPostgresSource)
_Any = TypeVar("_Any", bound="_Running")


class _Running(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
MADE_BY_MIGRATE = {"auth_permission", "django_content_type"}
LARGE = {  # a JVM, a process with a copy of this one's packages, or a second server under it
    "availability_group", "azure", "bigquery_server", "broker", "gcs", "glue", "hive", "iceberg_lake", "mysql",
    "oracle_source", "rest_catalog", "s3_server", "snowflake_server", "spanner_server", "sqlserver",
}  # fmt: skip
_ENDS: dict[str, Callable[[], None]] = {}
EMPTY = """
DO $$ DECLARE name text; BEGIN
  SET LOCAL session_replication_role = replica;
  LOCK TABLE {tables} IN EXCLUSIVE MODE;
  FOREACH name IN ARRAY ARRAY[{names}] LOOP EXECUTE format('DELETE FROM %I', name); END LOOP;
END $$
"""


def pytest_configure() -> None:
    """Hash passwords with MD5, which saves half a second of CPU per sign-in, and empty the database faster after
    transactional tests.
    """
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    TransactionTestCase._fixture_teardown = lambda _: empty_database()


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: SubRequest) -> None:
    """How each large server is ended."""
    if fixturedef.argname in LARGE:
        _ENDS[fixturedef.argname] = partial(fixturedef.finish, request)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the large servers that the next folder's first test does not name, so that workers side by side have room.

    They are fixtures of the session: what pytest does at its end is done earlier, and once more where one is asked for
    again.
    """
    yield
    if nextitem is None or nextitem.path.parent == item.path.parent:
        return
    for name in _ENDS.keys() - set(getattr(nextitem, "fixturenames", ())):
        _ENDS.pop(name)()


def empty_database() -> None:
    """Delete the rows of all tables, for the next test.

    Django's flush truncates each table, a new file for each of its indexes, and makes all permissions again. The lock
    waits for what a thread of the test still writes, as a truncation does, and not for one that only reads.
    """
    tables = set(connection.introspection.django_table_names(only_existing=True, include_views=False)) - MADE_BY_MIGRATE
    quoted = ", ".join(map(connection.ops.quote_name, sorted(tables)))
    with connection.cursor() as cursor:
        cursor.execute(EMPTY.format(tables=quoted, names=", ".join(f"'{name}'" for name in sorted(tables))))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """What is loaded by now stays: looking through it for garbage again and again took a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_unconfigure() -> None:
    """Leave nothing behind."""
    POSTGRES.stop()
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """DATABASE_URL of a running metadata database."""
    if not POSTGRES.running:
        POSTGRES.start()
    return POSTGRES.url


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    """pytest-django asks for it before it makes the test database: the server runs by then, and has what to copy."""
    connection.settings_dict["TEST"]["TEMPLATE"] = migrated(POSTGRES)
    catalog_database.prepare(POSTGRES.url, environment.catalog_beside(POSTGRES.url))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A session that a thread of some test left open does not keep the test database from being dropped."""
    yield
    gc.collect()
    connection.close()  # the server may have ended this one long ago
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <>"
            " pg_backend_pid()"
        )


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    redis = EmbeddedRedis(HOME / "redis")
    redis.start()
    yield redis.url
    redis.stop()


def _while_it_runs(server: _Any) -> Iterator[_Any]:
    server.start()
    yield server
    server.stop()


def _one_of_each(made: Callable[[str], _Server]) -> Iterator[Callable[[str], _Server]]:
    """of(version) → a running server of that version, one for the whole run."""
    servers: dict[str, _Server] = {}

    def of(version: str) -> _Server:
        if version not in servers:
            server = made(version)
            server.start()
            servers[version] = server
        return servers[version]

    yield of
    for server in servers.values():
        server.stop()


@pytest.fixture(scope="session")
def mariadb_version() -> Iterator[Callable[[str], EmbeddedMariaDB]]:
    """mariadb_version("10.11.5") → a running server of that version, one for the whole run."""
    yield from _one_of_each(lambda version: EmbeddedMariaDB(HOME / f"mariadb-{version}", version=version))


@pytest.fixture(scope="session")
def mariadb(mariadb_version: Callable[[str], EmbeddedMariaDB]) -> EmbeddedMariaDB:
    """A live MariaDB with the settings that replication needs: 11.4, or the version that TIDEMARK_TEST_MARIADB
    names.
    """
    return mariadb_version(os.environ.get("TIDEMARK_TEST_MARIADB", MARIADB_SOURCE))


@pytest.fixture(scope="session")
def mysql() -> Iterator[EmbeddedMySQL]:
    """A live MySQL 8.0 with the settings that replication needs."""
    yield from _while_it_runs(EmbeddedMySQL(HOME / "mysql"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[EmbeddedS3]:
    """A live S3 store.  A test that kills it starts it again."""
    yield from _while_it_runs(EmbeddedS3(HOME / "s3"))


@pytest.fixture
def s3(s3_server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> EmbeddedS3:
    """The store, which this process may use."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(scope="session")
def postgres_version() -> Iterator[Callable[[str], EmbeddedPostgresSource]]:
    """postgres_version("13.22.0") → a running server of that version, one for the whole run."""
    yield from _one_of_each(
        lambda version: EmbeddedPostgresSource(HOME / f"postgres-{version}", version=version, durable=False)
    )


@pytest.fixture(scope="session")
def postgres_source(postgres_version: Callable[[str], EmbeddedPostgresSource]) -> EmbeddedPostgresSource:
    """A live Postgres 17 with the settings that replication needs."""
    return postgres_version(VERSION)


@pytest.fixture(scope="session")
def oracle_source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedOracle]:
    """The emulator of Oracle, with the logging that replication needs."""
    server = EmbeddedOracle(tmp_path_factory.mktemp("oracle"))
    server.start()
    with closing(server.connect()) as session, session.cursor() as cursor:
        for columns in ("", " (ALL) COLUMNS"):
            cursor.execute(f"ALTER DATABASE ADD SUPPLEMENTAL LOG DATA{columns}")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedPostgresSource, str]]:
    """A server with TLS, and the certificate of its authority, for the name localhost."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "server.key", folder / "server.crt"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    server = EmbeddedPostgresSource(HOME / "postgres-tls", durable=False)
    server.start()
    for file in (key, certificate):
        _give(server, file)
    server.stop()
    server = EmbeddedPostgresSource(HOME / "postgres-tls", options={"ssl": "on"}, durable=False)
    server.start()
    yield server, certificate.read_text()
    server.stop()


def _give(server: EmbeddedPostgresSource, file: Path) -> None:
    data = server.folder / "data"
    owner = (data / "PG_VERSION").stat()
    copy = data / file.name
    copy.write_bytes(file.read_bytes())
    copy.chmod(0o600)
    os.chown(copy, owner.st_uid, owner.st_gid)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The sample databases; tests that need them skip where they are absent."""
    if not SHARED.exists():
        pytest.skip(f"the sample databases are not at {SHARED.name}/ beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def authority() -> Authority:
    """It signed the certificate of the broker."""
    from tests.integration.kafka.security import Authority

    return Authority("those who run the brokers")


@pytest.fixture(scope="session")
def broker(authority: Authority) -> Iterator[EmbeddedKafka]:
    """A live Kafka broker with one port per security protocol."""
    from testing.servers.kafka import EmbeddedKafka
    from tests.integration.kafka.security import PASSWORD, PROTOCOLS, USER, broker_options

    options = broker_options(HOME / "kafka-keys", authority)
    yield from _while_it_runs(
        EmbeddedKafka(HOME / "kafka", options=options, listeners=PROTOCOLS, users={USER: PASSWORD})
    )


@pytest.fixture(scope="session")
def rest_catalog() -> Iterator[EmbeddedRestCatalog]:
    """A live REST catalog; its warehouse is a folder.  A test that kills it starts it again."""
    from testing.servers.iceberg_rest import EmbeddedRestCatalog

    yield from _while_it_runs(EmbeddedRestCatalog(HOME / "rest"))


@pytest.fixture(scope="session")
def redshift(postgres_source: EmbeddedPostgresSource, s3_server: EmbeddedS3) -> Iterator[EmbeddedRedshift]:
    """A stand-in for Redshift, before the live Postgres."""
    from testing.servers.redshift import EmbeddedRedshift

    yield from _while_it_runs(EmbeddedRedshift(postgres_source, s3_server.environment))


@pytest.fixture(scope="session")
def glue() -> Iterator[EmbeddedGlue]:
    """A live AWS Glue, as moto plays it."""
    from testing.servers.glue import EmbeddedGlue

    yield from _while_it_runs(EmbeddedGlue(HOME / "glue"))


@pytest.fixture(scope="session")
def snowflake_server() -> Iterator[EmbeddedSnowflake]:
    """A live stand-in for Snowflake."""
    from testing.servers.snowflake.embedded import EmbeddedSnowflake

    yield from _while_it_runs(EmbeddedSnowflake(HOME / "snowflake"))


@pytest.fixture(scope="session")
def bigquery_server() -> Iterator[EmbeddedBigQuery]:
    """A live stand-in for BigQuery."""
    from testing.servers.bigquery.embedded import EmbeddedBigQuery

    yield from _while_it_runs(EmbeddedBigQuery(HOME / "bigquery"))


@pytest.fixture(scope="session")
def sqlserver() -> Iterator[EmbeddedSQLServer]:
    """A live emulator of SQL Server, with TLS."""
    from testing.servers.sqlserver.embedded import EmbeddedSQLServer

    yield from _while_it_runs(EmbeddedSQLServer(HOME / "sqlserver"))


@pytest.fixture(scope="session")
def availability_group() -> Iterator[AvailabilityGroup]:
    """Two more of them, as a primary replica and a readable secondary."""
    from testing.servers.sqlserver.availability_group import AvailabilityGroup
    from testing.servers.sqlserver.embedded import EmbeddedSQLServer

    yield from _while_it_runs(AvailabilityGroup(EmbeddedSQLServer(HOME / "group")))


@pytest.fixture(scope="session")
def spanner_server() -> Iterator[EmbeddedSpanner]:
    """The emulator of Google's SDK."""
    from testing.servers.spanner import NEEDED, EmbeddedSpanner, available

    if not available():
        pytest.skip(NEEDED)
    yield from _while_it_runs(EmbeddedSpanner(HOME / "spanner"))


@pytest.fixture(scope="session")
def gcs() -> Iterator[EmbeddedGcs]:
    """A live emulator of Google Cloud Storage."""
    from testing.servers.stores.gcs import EmbeddedGcs

    yield from _while_it_runs(EmbeddedGcs(HOME / "gcs"))


@pytest.fixture(scope="session")
def azure() -> Iterator[EmbeddedAzure]:
    """A live emulator of Azure's storage."""
    from testing.servers.stores.azure import EmbeddedAzure

    yield from _while_it_runs(EmbeddedAzure(HOME / "azure"))


@pytest.fixture(scope="session")
def hive(s3_server: EmbeddedS3) -> Iterator[EmbeddedHive]:
    """A live Hive Metastore."""
    from testing.servers.hive import EmbeddedHive

    yield from _while_it_runs(EmbeddedHive(HOME / "hive", stores=[s3_server.url]))


@pytest.fixture(scope="session")
def iceberg_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One Spark for all tests of the Iceberg target."""
    from replicator.staging.storage import Storage
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.jvm.session import SparkConfig, SparkPool
    from replicator.targets.iceberg.target import IcebergTarget
    from tests.integration.spark.lake import PASSWORD, Lake
    from webapp.embedded.java_artifacts import spark_jars
    from webapp.embedded.java_classes import java_options

    folder = tmp_path_factory.mktemp("lake")
    config = SparkConfig(
        jars=spark_jars(),
        catalog_uri=f"jdbc:sqlite:{folder}/catalog.db",
        catalog_user="nobody",
        catalog_password=PASSWORD,
        warehouse=f"file://{folder}/warehouse",
        master="local[2]",
        driver_memory="1g",
        java_options=java_options(),
    )
    storage = Storage(f"file://{folder}/staging")
    pool = SparkPool(config)
    yield Lake(pool, storage, IcebergTarget(pool, storage, "r1"), folder / "catalog.db")
    jvm.stop()
