"""What a table is made of, its first rows, and what to paste to read it, for pages."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.delta import position as positions
from replicator.targets.delta.destination import PATIENCE, DeltaStore
from replicator.targets.delta.failures import explained
from replicator.targets.delta.table import OpenTable, file_system
from replicator.targets.kind import InspectedTable, Preview, QueryExample
from replicator.targets.quoting import double_quoted, shell_word, text_literal

ENTRIES = 1000  # of the log, in which a compaction is looked for
COMPACTIONS = frozenset({"OPTIMIZE"})  # of other programs
SPARK_PACKAGE = "io.delta:delta-spark_2.13:4.0.0"
HIDDEN = {
    "aws_access_key_id": "<access key id>",
    "aws_secret_access_key": "<secret access key>",
    "azure_storage_account_key": "<account key>",
}
OWN = frozenset({*PATIENCE, "aws_conditional_put"})


def report(store: DeltaStore, name: TargetTable) -> InspectedTable | None:
    """None where there is no such table.  Raises TargetError."""
    table = OpenTable.load(store, name)
    if table is None or table.dropped:
        return None
    files = table.files()
    with explained(store):
        log = file_system(store, table.uri).get_file_info(pafs.FileSelector("_delta_log", allow_not_found=True))
        history = table.delta.history(ENTRIES)
    return InspectedTable(
        location=table.uri,
        rows=sum(max(one.rows, 0) for one in files),
        bytes=sum(one.size for one in files),
        files=len(files),
        delete_files=0,
        snapshots=sum(one.base_name.endswith(".json") for one in log),
        committed_at=_at(history[0]) if history else None,
        compacted_at=next((_at(entry) for entry in history if _is_compaction(entry)), None),
        columns=sum(name != SEQUENCE for name, _ in table.fields),
        examples=examples(store, name),
    )


def preview(store: DeltaStore, name: TargetTable, rows: int) -> Preview | None:
    """The first rows that a read returns.  None where there is no such table.  Raises TargetError."""
    table = OpenTable.load(store, name)
    if table is None or table.dropped:
        return None
    names, found = table.arrow.names, list[dict[str, Any]]()
    parquet = table.parquet()
    for file in table.files():
        if len(found) >= rows:
            break
        with explained(store), parquet.open(file.path, file.size) as opened:
            for batch in opened.iter_batches(rows):
                found += batch.to_pylist()
                if len(found) >= rows:
                    break
    return Preview.of(names, found[:rows])


def _is_compaction(entry: dict[str, Any]) -> bool:
    return positions.SAME_ROWS in entry or entry.get("operation") in COMPACTIONS


def _at(entry: dict[str, Any]) -> datetime | None:
    said = entry.get("timestamp")
    return datetime.fromtimestamp(said / 1000, UTC) if said else None


def examples(store: DeltaStore, table: TargetTable) -> list[QueryExample]:
    """In the order of the engines, with the table's real address, and a word in angle brackets for each secret."""
    uri = store.uri(table)
    return [
        _spark(store, uri),
        _duckdb(store, uri),
        QueryExample("deltalake", _python(store, uri, "deltalake")),
        QueryExample("Polars", _python(store, uri, "polars")),
        _trino(uri, table),
        _databricks(uri, table),
        _snowflake(uri, table),
    ]


def _shown(store: DeltaStore) -> dict[str, str]:
    return {name: HIDDEN.get(name, value) for name, value in store.options.items() if name not in OWN}


def _spark(store: DeltaStore, uri: str) -> QueryExample:
    given = _shown(store)
    lines = [
        f"spark-sql --packages {SPARK_PACKAGE}",
        "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ]
    if uri.startswith("s3:"):
        lines[0] += ",org.apache.hadoop:hadoop-aws:3.4.1"
        names = {"aws_endpoint": "endpoint", "aws_access_key_id": "access.key", "aws_secret_access_key": "secret.key"}
        lines += [
            f"--conf spark.hadoop.fs.s3a.{name}={shell_word(given[key])}" for key, name in names.items() if key in given
        ]
        uri = f"s3a{uri.removeprefix('s3')}"
    return QueryExample("Spark", " \\\n  ".join(lines) + f"\n\nSELECT * FROM delta.`{uri}` LIMIT 10;")


def _duckdb(store: DeltaStore, uri: str) -> QueryExample:
    given, lines = _shown(store), ["INSTALL delta; LOAD delta;"]
    if uri.startswith("s3:"):
        options = ["TYPE s3"]
        if "aws_access_key_id" in given:
            options += [
                f"KEY_ID {text_literal(given['aws_access_key_id'])}",
                f"SECRET {text_literal(given['aws_secret_access_key'])}",
            ]
        else:
            options.append("PROVIDER credential_chain")
        options.append(f"REGION {text_literal(given['aws_region'])}")
        if endpoint := given.get("aws_endpoint"):
            parts = urlsplit(endpoint)
            options += [f"ENDPOINT {text_literal(parts.netloc)}", "URL_STYLE 'path'"]
            options.append(f"USE_SSL {str(parts.scheme == 'https').lower()}")
        lines.append(f"CREATE SECRET store ({', '.join(options)});")
    elif uri.startswith("gs:"):
        lines.append("CREATE SECRET store (TYPE gcs, KEY_ID '<hmac key id>', SECRET '<hmac secret>');")
    elif uri.startswith("abfss:"):
        lines.append("CREATE SECRET store (TYPE azure, CONNECTION_STRING '<connection string>');")
    return QueryExample("DuckDB", "\n".join([*lines, f"SELECT * FROM delta_scan({text_literal(uri)}) LIMIT 10;"]))


def _python(store: DeltaStore, uri: str, library: str) -> str:
    given = "\n".join(f"    {json.dumps(name)}: {json.dumps(value)}," for name, value in _shown(store).items())
    options = f"{{\n{given}\n}}" if given else "{}"
    address = json.dumps(uri, ensure_ascii=False)
    if library == "polars":
        return f"import polars\n\nprint(polars.scan_delta({address}, storage_options={options}).head(10).collect())"
    table = f"DeltaTable({address}, storage_options={options})"
    return (
        f"from deltalake import DeltaTable, QueryBuilder\n\ntable = {table}\n"
        'print(QueryBuilder().register("t", table).execute("SELECT * FROM t LIMIT 10").read_all())'
    )


def _trino(uri: str, table: TargetTable) -> QueryExample:
    schema, name = table.namespace.lower(), table.name.lower()
    lines = [
        "-- delta.register-table-procedure.enabled=true in the catalog's properties",
        f"CREATE SCHEMA IF NOT EXISTS delta.{double_quoted(schema)};",
        f"CALL delta.system.register_table({text_literal(schema)}, {text_literal(name)}, {text_literal(uri)});",
        f"SELECT * FROM delta.{double_quoted(schema)}.{double_quoted(name)} LIMIT 10;",
    ]
    return QueryExample("Trino", "\n".join(lines))


def _databricks(uri: str, table: TargetTable) -> QueryExample:
    name = f"`{table.name.replace('`', '``')}`"
    lines = [f"CREATE TABLE {name} USING DELTA LOCATION {text_literal(uri)};", f"SELECT * FROM {name} LIMIT 10;"]
    return QueryExample("Databricks", "\n".join(lines))


def _snowflake(uri: str, table: TargetTable) -> QueryExample:
    base, name = "/".join(uri.split("/")[-2:]), double_quoted(table.name)
    made = [f"CREATE ICEBERG TABLE {name}", "CATALOG = 'DELTA'", "EXTERNAL_VOLUME = '<volume>'"]
    lines = [
        "CREATE CATALOG INTEGRATION delta CATALOG_SOURCE = OBJECT_STORE TABLE_FORMAT = DELTA ENABLED = TRUE;",
        "\n  ".join([*made, f"BASE_LOCATION = {text_literal(base)};"]),
        f"SELECT * FROM {name} LIMIT 10;",
    ]
    return QueryExample("Snowflake", "\n".join(lines))
