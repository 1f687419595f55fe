"""DuckDB, pyiceberg, Spark and Trino read tables of all types, and agree value by value with the source.

pyiceberg's rows are compared with the source's by verification, and the others' with pyiceberg's.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import Table

from replicator.targets.base import TargetTable
from replicator.targets.iceberg.table.naming import sql_name
from replicator.verification.target import open_catalog
from testing.servers.trino import EmbeddedTrino, newer_java
from testing.workload.histories import Size, generate
from testing.workload.runner import Player
from testing.workload.workload import Dialect
from tests.integration.lake.duckdb_reader import duckdb_with_iceberg
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.destinations.lakes import built_in_lake, catalog_config
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres_source import EmbeddedPostgresSource
from webapp.replicators import selectors
from webapp.worker.run.spark import spark

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
]
SIZE = Size(tables=(10, 10), rows=(25, 25), phases=(1, 1), steps=(40, 40), writers=(1, 1))
EXACT = ("int", "decimal", "string", "binary")  # of Arrow: what a filter can be tried with
Read = Callable[[Table], pa.Table]


@pytest.fixture(params=[pytest.param(("mariadb", 1), marks=pytest.mark.long), ("postgres", 3)], ids=str)
def played(request: pytest.FixtureRequest, transactional_db: Any) -> Iterator[tuple[Lab, Player]]:
    dialect: Dialect
    dialect, seed = request.param
    history = generate(seed, dialect, SIZE, 17 if dialect == "postgres" else None, unkilled=True)
    name = f"readers_{dialect}_{seed}"
    if dialect == "mariadb":
        server: EmbeddedMariaDB = request.getfixturevalue("mariadb")
        lab, connect = Lab(server.address, name), server.connect
    else:
        source: EmbeddedPostgresSource = request.getfixturevalue("postgres_source")
        lab, connect = PostgresLab(source.address, name), source.connect
    yield lab, Player(history, connect, name)
    lab.close()


def test_all_types_after_a_snapshot_and_after_merges(played: tuple[Lab, Player]) -> None:
    lab, player = played
    player.prepare()
    replicator = lab.replicate()
    lab.run(timeout=300)
    kinds = agreed(lab)
    player.play()
    lab.run(timeout=300)
    kinds |= agreed(lab)
    assert len(kinds) >= 8, kinds
    assert replicator.status != "failed"


@pytest.mark.long
@pytest.mark.skipif(newer_java() is None, reason="Trino runs on a newer Java: set TRINO_JAVA_HOME")
def test_trino_reads_all_types_after_merges(played: tuple[Lab, Player], tmp_path: Path) -> None:
    """Trino has lower case only: tables with capitals are skipped, and columns are matched by position."""
    lab, player = played
    player.prepare()
    lab.replicate()
    lab.run(timeout=300)
    player.play()
    lab.run(timeout=300)
    assert lab.assert_equal() > 100
    catalog, kinds, compared = open_catalog(catalog_config()), set[str](), 0
    with trino(tmp_path) as server:
        for one in selectors.tables_of(lab.replicator):
            name = f"{one.target_namespace}.{one.target_name}"
            table = catalog.load_table((one.target_namespace, one.target_name))
            columns = [field.name.lower() for field in table.schema().fields]
            if one.state != "streaming" or name != name.lower() or len(set(columns)) < len(columns):
                continue
            same(in_order(table.scan().to_arrow(), table), in_order(in_trino(server, table), table), f"{name} in Trino")
            kinds |= {str(field.field_type).partition("(")[0] for field in table.schema().fields}
            compared += 1
    assert compared >= 5
    assert len(kinds) >= 8, kinds


@contextmanager
def trino(folder: Path) -> Iterator[EmbeddedTrino]:
    """With the installation's lakehouse as its catalog."""
    known = built_in_lake().java
    own = {
        "iceberg.catalog.type": "jdbc", "iceberg.jdbc-catalog.catalog-name": "lake",
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": known["uri"], "iceberg.jdbc-catalog.schema-version": "V1",
        "iceberg.jdbc-catalog.connection-user": known["jdbc.user"],
        "iceberg.jdbc-catalog.default-warehouse-dir": known["warehouse"],
        "fs.native-local.enabled": "true", "local.location": "/",
    }  # fmt: skip
    if password := known.get("jdbc.password"):
        own["iceberg.jdbc-catalog.connection-password"] = password
    server = EmbeddedTrino(folder / "trino", own)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def in_trino(server: EmbeddedTrino, table: Table) -> pa.Table:
    """All rows, in the Arrow types of the table's schema."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    name = ".".join('"' + part.replace('"', '""') + '"' for part in ("lake", *table.name()))
    found = server.query(f"SELECT * FROM {name}")
    assert [column for column, _ in found.columns] == [column.lower() for column in schema.names]
    values = zip(*found.rows, strict=True) if found.rows else [()] * len(schema)
    return pa.table([value_array(list(one), field.type) for one, field in zip(values, schema, strict=True)], schema)


def value_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Of JSON: times and decimals are texts there, bytes are in base 64."""
    if pa.types.is_temporal(kind):
        unit = "D" if pa.types.is_date(kind) else "us"
        texts = [None if one is None else one.removesuffix(" UTC").replace(" ", "T") for one in values]
        return pa.array(np.array(texts, f"datetime64[{unit}]")).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if one is None else Decimal(one) for one in values], kind)
    if pa.types.is_floating(kind):
        return pa.array([None if one is None else float(one) for one in values], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if one is None else base64.b64decode(one) for one in values], kind)
    return pa.array(values, kind)


def agreed(lab: Lab) -> set[str]:
    """The Iceberg types that were compared."""
    assert lab.assert_equal() > 100
    kinds: set[str] = set()
    catalog = open_catalog(catalog_config())
    with spark(built_in_lake()).session({}) as session, duckdb_with_iceberg() as connection:
        session.conf.set("spark.sql.session.timeZone", "UTC")
        connection.execute("SET TimeZone = 'UTC'")
        for one in selectors.tables_of(lab.replicator):
            if one.state != "streaming":
                continue
            name = TargetTable(one.target_namespace, one.target_name)
            table = catalog.load_table((name.namespace, name.name))
            expected = in_order(table.scan().to_arrow(), table)
            kinds |= {str(field.field_type).partition("(")[0] for field in table.schema().fields}
            scan = f"iceberg_scan('{path_of(table)}', metadata_compression_codec => 'gzip')"
            same(expected, in_order(session.table(sql_name(name)).toArrow(), table), f"{name} in Spark")
            found = connection.execute(f"SELECT * FROM {scan}").to_arrow_table()
            same(expected, in_order(found, table), f"{name} in DuckDB")
            filtered(connection, scan, expected, str(name))
    return kinds


def path_of(table: Table) -> str:
    """Of its metadata file, for SQL."""
    return table.metadata_location.replace("file:///", "/").replace("'", "''")


def in_order(rows: pa.Table, table: Table) -> pa.Table:
    """By sequence number, in the Arrow types of the table's schema."""
    schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
    assert rows.column_names == schema.names
    return rows.sort_by("_sequence_num").cast(pa.schema([(field.name, field.type) for field in schema]))


def same(expected: pa.Table, found: pa.Table, what: str) -> None:
    assert found.num_rows == expected.num_rows, what
    for name in expected.column_names:
        wanted, seen = expected[name], found[name]
        if pa.types.is_floating(wanted.type):  # NaN is not equal to itself
            assert pc.fill_null(pc.is_nan(wanted), fill_value=False).equals(
                pc.fill_null(pc.is_nan(seen), fill_value=False)
            ), f"{what}: {name}"
            wanted, seen = (pc.if_else(pc.is_nan(column), None, column) for column in (wanted, seen))
        assert seen.combine_chunks().equals(wanted.combine_chunks()), f"{what}: {name} {wanted.type}"


def filtered(connection: duckdb.DuckDBPyConnection, scan: str, rows: pa.Table, what: str) -> None:
    """Files are left out by their bounds: a wrong bound would lose rows that the whole table has."""
    for name in rows.column_names:
        column = rows[name]
        if not any(word in str(column.type) for word in EXACT) or column.null_count == len(column):
            continue
        for value in {column.drop_null()[0].as_py(), column.drop_null()[-1].as_py()}:
            quoted = '"' + name.replace('"', '""') + '"'
            query = f"SELECT count(*) FROM {scan} WHERE {quoted} = ?"
            found = connection.execute(query, [value]).fetchone()
            assert found == (pc.sum(pc.equal(column, pa.scalar(value, column.type))).as_py(),), (
                f"{what}: {name} {value!r}"
            )
