"""Where the contract is tried: one for each kind of target, a registry line each (`PLACES`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import duckdb
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog

from replicator.model.mode import CURRENT, DELETED, Mode
from replicator.model.schema import TableSchema
from replicator.model.types import Kind
from replicator.staging.storage import Storage
from replicator.targets.base import Target, TargetTable
from replicator.targets.kind import Opening, TargetKind
from replicator.targets.registry import target_kind
from tests.staged import Row

if TYPE_CHECKING:
    from replicator.targets.iceberg.jvm.session import SparkConfig
    from testing.servers.bigquery.embedded import EmbeddedBigQuery
    from testing.servers.glue import EmbeddedGlue
    from testing.servers.hive import EmbeddedHive
    from testing.servers.iceberg_rest import EmbeddedRestCatalog
    from testing.servers.redshift import EmbeddedRedshift
    from testing.servers.snowflake.embedded import EmbeddedSnowflake
    from testing.servers.spanner import EmbeddedSpanner
    from testing.servers.stores.azure import EmbeddedAzure
    from testing.servers.stores.gcs import EmbeddedGcs
    from testing.servers.stores.s3 import EmbeddedS3
    from webapp.embedded.postgres_source import EmbeddedPostgresSource


@dataclass
class TargetPlace:
    """worker: opens a new target, as another process would; read: the table's current rows, read by another program.

    namespace: keeps apart tables of one name that several tests have in the same place at the same time.
    """

    kind: TargetKind
    storage: Storage
    worker: Callable[[str], Target]
    read: Callable[[TargetTable, TableSchema, Mode], Counter[Row]]
    namespace: str
    workers: list[Target] = field(default_factory=list)
    engine: Callable[[], Any] = object

    def target(self, replicator: str = "r1") -> Target:
        made = self.worker(replicator)
        self.workers.append(made)
        return made

    def close(self) -> None:
        for one in self.workers:
            one.close()


def iceberg(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The lake of the Spark tests, read by pyiceberg."""
    lake = request.getfixturevalue("iceberg_lake")
    return _lake_place(lake.config, lake.storage, lake.reader, f"contract_{folder.name}")


def iceberg_version_3(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The same with tables of format version 3."""
    lake = request.getfixturevalue("iceberg_lake")
    settings = {"format_version": "3", "bloom_filters": "yes"}
    return _lake_place(lake.config, lake.storage, lake.reader, f"contract_{folder.name}", settings)


def iceberg_partitioned(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The same with the tables of the contract in partitions, and sorted."""
    lake = request.getfixturevalue("iceberg_lake")
    settings = {"partition_by": PARTITION_BY, "sort_by": "*.keyed: v desc, id\n*.types: c_date"}
    return _lake_place(lake.config, lake.storage, lake.reader, f"contract_{folder.name}", settings)


def iceberg_rest(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A REST catalog that decides where tables are."""
    server: EmbeddedRestCatalog = request.getfixturevalue("rest_catalog")
    settings = {"catalog": "rest", "uri": server.uri, "auth": "none", "store": "file"}
    return _catalog_place(settings, folder, lambda: RestCatalog("lake", uri=server.uri))


def iceberg_glue(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """AWS Glue as moto plays it, on S3: the process's own credentials, as in workers."""
    s3: EmbeddedS3 = request.getfixturevalue("s3")
    glue: EmbeddedGlue = request.getfixturevalue("glue")
    settings = {
        "catalog": "glue",
        "glue_endpoint": glue.endpoint,
        "region": glue.region,
        "store_endpoint": s3.environment["AWS_ENDPOINT_URL"],
        "warehouse": f"{s3.url}/glue",
    }
    place = _catalog_place(settings, folder)
    system = place.engine().jvm.java.lang.System  # a JVM that has begun before has another environment
    for name, value in (("aws.accessKeyId", s3.user), ("aws.secretAccessKey", s3.secret)):
        system.setProperty(name, value)
    return place


def iceberg_gcs(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A JDBC catalog, on Google Cloud Storage's emulator."""
    return _catalog_place(_in_store("gcs", request, folder), folder)


def iceberg_adls(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A JDBC catalog, on Azure's emulator."""
    return _catalog_place(_in_store("adls", request, folder), folder)


def iceberg_hive(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A Hive Metastore, on S3 with access keys in the settings."""
    hive: EmbeddedHive = request.getfixturevalue("hive")
    return _catalog_place({**STORES["s3"](request, folder), "catalog": "hive", "uri": hive.uri}, folder)


def _in_store(store: str, request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    return {**jdbc_settings(request.getfixturevalue("postgres_url")), **STORES[store](request, folder)}


def _s3(request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    del folder
    s3: EmbeddedS3 = request.getfixturevalue("s3_server")
    keys = {"credentials": "keys", "access_key_id": s3.user, "secret_access_key": s3.secret}
    return {"store": "s3", "store_endpoint": s3.environment["AWS_ENDPOINT_URL"], "warehouse": f"{s3.url}/lake", **keys}


def _gcs(request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    del folder
    gcs: EmbeddedGcs = request.getfixturevalue("gcs")
    return {"store": "gcs", "store_endpoint": gcs.endpoint, "warehouse": f"{gcs.url}/lake"}


def _adls(request: pytest.FixtureRequest, folder: Path) -> dict[str, str]:
    del folder
    azure: EmbeddedAzure = request.getfixturevalue("azure")
    keys = {"credentials": "keys", "account_name": azure.account, "account_key": azure.key}
    return {"store": "adls", "store_endpoint": f"http://{azure.authority}", "warehouse": f"{azure.url}/lake", **keys}


# Settings of a destination for each, which a server plays
STORES: Mapping[str, Callable[[pytest.FixtureRequest, Path], dict[str, str]]] = {
    "file": lambda _, folder: {"store": "file", "warehouse": f"file://{folder}/lake"},
    "s3": _s3,
    "gcs": _gcs,
    "adls": _adls,
}


def jdbc_settings(postgres_url: str) -> dict[str, str]:
    """Of a catalog in the tests' Postgres."""
    parts = urlsplit(postgres_url)
    uri = f"postgresql://{parts.hostname}:{parts.port}{parts.path}"
    return {"catalog": "jdbc", "uri": uri, "username": parts.username or "", "password": unquote(parts.password or "")}


def _catalog_place(
    settings: Mapping[str, str], folder: Path, reader: Callable[[], Catalog] | None = None
) -> TargetPlace:
    """As a destination's settings say; read as they say, too, where no reader is given."""
    from replicator.targets.iceberg.destination import LakeCatalog, lake_catalog
    from replicator.targets.iceberg.jvm.session import SparkConfig
    from webapp.embedded.java_artifacts import spark_jars
    from webapp.embedded.java_classes import java_options

    lake = lake_catalog(settings, LakeCatalog({}, {}))
    config = SparkConfig(
        spark_jars(lake.bundles),
        properties=lake.java,
        warehouse=lake.warehouse,
        master="local[2]",
        java_options=java_options(),
    )
    storage = Storage(f"file://{folder}/staging")
    return _lake_place(
        config, storage, reader or (lambda: load_catalog("lake", **lake.python)), f"contract_{folder.name}".lower()
    )


def _lake_place(
    config: SparkConfig,
    storage: Storage,
    reader: Callable[[], Catalog],
    namespace: str,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> TargetPlace:
    from replicator.targets.iceberg.jvm.session import SparkPool
    from replicator.targets.iceberg.layout import Layout
    from replicator.targets.iceberg.target import IcebergTarget

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        data = reader().load_table((table.namespace, table.name)).scan().to_arrow()
        if mode is Mode.SOFT_DELETE:
            data = data.filter(~data.column(DELETED).to_numpy(zero_copy_only=False).astype(bool))
        if mode is Mode.HISTORY:
            data = data.filter(data.column(CURRENT))
        return Counter(tuple(row[name] for name in schema.names) for row in data.to_pylist())

    def worker(replicator: str) -> Target:
        return IcebergTarget(SparkPool(config), storage, replicator, layout=Layout.parse(settings))

    return TargetPlace(
        target_kind("iceberg"), storage, worker, read, namespace, engine=lambda: SparkPool(config).catalog()[0]
    )


def kafka(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A broker; an independent consumer rebuilds the tables from their topics."""
    from replicator.targets.kafka.config import KafkaConfig
    from replicator.targets.kafka.target import KafkaTarget
    from tests.integration.kafka.consumer import Topic

    broker = request.getfixturevalue("broker")
    prefix = f"contract-{folder.name}"
    storage = Storage(f"file://{folder}/staging")

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        del mode
        topic = Topic.read(
            broker.bootstrap_servers, prefix, f"{table.namespace.removeprefix(prefix + '.')}.{table.name}"
        )
        return Counter(tuple(row.get(name) for name in schema.names) for row in topic.table())

    def worker(replicator: str) -> Target:
        config = KafkaConfig.parse({"bootstrap_servers": broker.bootstrap_servers, "topic_prefix": prefix})
        return KafkaTarget(config, storage, replicator, "mysql")

    return TargetPlace(target_kind("kafka"), storage, worker, read, f"{prefix}.shop")


def delta(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """Tables of Delta Lake in a folder."""
    del request
    return _delta_place({"store": "file", "location": f"file://{folder}/delta"}, folder)


def delta_s3(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The same in S3, with access keys in the settings."""
    return _delta_in("s3", request, folder)


def delta_adls(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The same in Azure Data Lake Storage."""
    return _delta_in("adls", request, folder)


def _delta_in(store: str, request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    settings = STORES[store](request, folder)
    return _delta_place({**settings, "location": settings.pop("warehouse").replace("/lake", "/delta")}, folder)


def _delta_place(settings: Mapping[str, str], folder: Path) -> TargetPlace:
    """Read by pyarrow, as delta-rs says which files there are."""
    from deltalake import DeltaTable

    from replicator.targets.delta.destination import delta_store
    from replicator.targets.delta.target import DeltaTarget
    from replicator.targets.iceberg.destination import NO_LAKE

    store, storage = delta_store(settings, NO_LAKE), Storage(f"file://{folder}/staging")

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        data = DeltaTable(store.uri(table), storage_options=dict(store.options)).to_pyarrow_table()
        if mode is Mode.SOFT_DELETE:
            data = data.filter(~data.column(DELETED).to_numpy(zero_copy_only=False).astype(bool))
        if mode is Mode.HISTORY:
            data = data.filter(data.column(CURRENT))
        return Counter(tuple(row[name] for name in schema.names) for row in data.to_pylist())

    return TargetPlace(
        target_kind("delta"), storage, lambda replicator: DeltaTarget(store, storage, replicator), read, folder.name
    )


def duckdb_tables(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The exercise: a file, read by SQL."""
    from tests.plugins.duckdb_tables.kind import DUCKDB
    from tests.plugins.duckdb_tables.names import IDENTIFIERS
    from tests.plugins.duckdb_tables.target import DuckDbTarget

    del request
    storage, path = Storage(f"file://{folder}/staging"), f"{folder}/tables.duckdb"

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        del mode
        names = ", ".join(f'"{IDENTIFIERS.legal(name)}"' for name in schema.names)
        with duckdb.connect(path) as db:
            db.execute("SET TimeZone = 'UTC'")
            found: list[Any] = db.execute(f'SELECT {names} FROM "{table.namespace}"."{table.name}"').fetchall()
        return Counter(found)

    return TargetPlace(DUCKDB, storage, lambda replicator: DuckDbTarget(path, storage, replicator), read, "shop")


PARTITION_BY = """
*.keyed: bucket(4, id), truncate(1, v)
*.keyless: n, truncate(2, a)
*.types: bucket(2, c_string), day(c_timestamp), year(c_date), hour(c_timestamp_ntz), truncate(10, c_decimal_38_0)
"""


def postgres(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A server that holds keys unique."""
    return _postgres_place(request, folder, "enforced")


def postgres_no_keys(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """As warehouses are: nothing holds a key unique."""
    return _postgres_place(request, folder, "indexed")


def redshift(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A stand-in: Amazon's client, Postgres without keys and with serializable transactions, files in S3."""
    server: EmbeddedRedshift = request.getfixturevalue("redshift")
    s3: EmbeddedS3 = request.getfixturevalue("s3_server")
    return _database_place("redshift", server, server.settings(f"{s3.url}/{folder.name}"), folder)


def _postgres_place(request: pytest.FixtureRequest, folder: Path, keys: str) -> TargetPlace:
    server: EmbeddedPostgresSource = request.getfixturevalue("postgres_source")
    settings = {
        "host": server.host, "port": server.port, "database": "shop", "user": server.user,
        "password": server.password, "keys": keys,
    }  # fmt: skip
    return _database_place("postgres", server, settings, folder)


def _database_place(
    name: str, server: EmbeddedPostgresSource | EmbeddedRedshift, settings: Mapping[str, Any], folder: Path
) -> TargetPlace:
    """Read by plain SELECTs."""
    storage, kind = Storage(f"file://{folder}/staging"), target_kind(name)
    lake: Any = None

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        there = {Mode.SOFT_DELETE: f"NOT {DELETED}", Mode.HISTORY: CURRENT}.get(mode, "true")
        names = ", ".join(f'"{name}"' for name in schema.names)
        with closing(server.connect()) as db, db.cursor() as cursor:
            cursor.execute(f'SELECT {names} FROM "{table.namespace}"."{table.name}" WHERE {there}')
            found = cursor.fetchall()
        return Counter(tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in found)

    def worker(replicator: str) -> Target:
        return kind.open(Opening(lake, lake, storage, replicator, settings, "mysql"))

    return TargetPlace(kind, storage, worker, read, folder.name)


def snowflake(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """Snowflake as its stand-in plays it, read by the vendor's client."""
    from snowflake import connector

    server: EmbeddedSnowflake = request.getfixturevalue("snowflake_server")
    storage, kind, lake = Storage(f"file://{folder}/staging"), target_kind("snowflake"), None

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        there = {Mode.SOFT_DELETE: f'NOT "{DELETED}"', Mode.HISTORY: f'"{CURRENT}"'}.get(mode, "TRUE")
        names = ", ".join(f'"{name}"' for name in schema.names)
        place = f'"{server.database}"."{table.namespace}"."{table.name}"'
        with closing(connector.connect(**server.options)) as db, db.cursor() as cursor:
            cursor.execute(f"SELECT {names} FROM {place} WHERE {there}")
            found = cursor.fetchall()
        return Counter(tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) for row in found)

    def worker(replicator: str) -> Target:
        return kind.open(Opening(lake, lake, storage, replicator, server.settings, "mysql"))  # type: ignore[arg-type]

    return TargetPlace(kind, storage, worker, read, folder.name)


def bigquery(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """BigQuery as its stand-in plays it, read by the vendor's client."""
    server: EmbeddedBigQuery = request.getfixturevalue("bigquery_server")
    storage, kind, lake = Storage(f"file://{folder}/staging"), target_kind("bigquery"), None

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        there = {Mode.SOFT_DELETE: f"NOT {DELETED}", Mode.HISTORY: CURRENT}.get(mode, "TRUE")
        names = ", ".join(f"`{name}`" for name in schema.names)
        place = f"`{server.project}`.`{table.namespace}`.`{table.name}`"
        with closing(server.client()) as client:
            found = client.query(f"SELECT {names} FROM {place} WHERE {there}").result()
            return Counter(tuple(row.values()) for row in found)

    def worker(replicator: str) -> Target:
        return kind.open(Opening(lake, lake, storage, replicator, server.settings, "mysql"))  # type: ignore[arg-type]

    return TargetPlace(kind, storage, worker, read, kind.identifiers.legal(folder.name))


def spanner(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """The vendor's emulator, read by the vendor's client for programs."""
    server: EmbeddedSpanner = request.getfixturevalue("spanner_server")
    storage, kind, lake = Storage(f"file://{folder}/staging"), target_kind("spanner"), None
    namespace = kind.identifiers.legal(folder.name)

    def read(table: TargetTable, schema: TableSchema, mode: Mode) -> Counter[Row]:
        from replicator.targets.spanner.names import quoted

        there = {Mode.SOFT_DELETE: f"NOT {quoted(DELETED)}", Mode.HISTORY: quoted(CURRENT)}.get(mode, "TRUE")
        names = ", ".join(quoted(name) for name in schema.names)
        found = server.query(f"SELECT {names} FROM `{table.namespace}`.`{table.name}` AS t_ WHERE {there}")
        wide = [one.type.kind is Kind.DECIMAL for one in schema.columns]
        return Counter(
            tuple(Decimal(value) if number and value else value for value, number in zip(row, wide, strict=True))
            for row in found
        )

    def worker(replicator: str) -> Target:
        return kind.open(Opening(lake, lake, storage, replicator, server.settings, "mysql"))  # type: ignore[arg-type]

    return TargetPlace(kind, storage, worker, read, namespace)


def postgres_stepwise(request: pytest.FixtureRequest, folder: Path) -> TargetPlace:
    """A server in which each DDL statement commits in a separate transaction."""
    from tests.integration.warehouse.stepwise import stepwise_target

    place = _postgres_place(request, folder, "indexed")
    server: EmbeddedPostgresSource = request.getfixturevalue("postgres_source")
    place.worker = lambda replicator: stepwise_target(server, place.storage, replicator)
    return place


# Other forms of `iceberg`, which has the whole contract in every run: each of them has a share of it.
FORMS = ("iceberg_partitioned", "iceberg_version_3", "iceberg_rest", "iceberg_glue")
# Their servers are built, or take long to start.
LONG = frozenset({"iceberg_gcs", "iceberg_adls", "iceberg_hive", "delta_adls"})
PLACES: Mapping[str, Callable[[pytest.FixtureRequest, Path], TargetPlace]] = {
    "iceberg": iceberg,
    "iceberg_partitioned": iceberg_partitioned,
    "iceberg_version_3": iceberg_version_3,
    "iceberg_rest": iceberg_rest,
    "iceberg_glue": iceberg_glue,
    "iceberg_gcs": iceberg_gcs,
    "iceberg_adls": iceberg_adls,
    "iceberg_hive": iceberg_hive,
    "delta": delta,
    "delta_s3": delta_s3,
    "delta_adls": delta_adls,
    "kafka": kafka,
    "postgres": postgres,
    "postgres_no_keys": postgres_no_keys,
    "redshift": redshift,
    "postgres_stepwise": postgres_stepwise,
    "snowflake": snowflake,
    "bigquery": bigquery,
    "spanner": spanner,
    "duckdb": duckdb_tables,
}
SHARED = frozenset(name for name in PLACES if name.startswith("iceberg"))  # kinds with tables of several parts
