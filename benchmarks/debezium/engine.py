"""Run `DebeziumReader.java` with Java's source launcher, which needs only a JDK (17 or later).

The settings are Debezium's defaults, except where they spare it work: offsets and schemas are kept in memory (or
written once a minute). There are no tombstones and no DDL records, and records stay unconverted Connect objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replicator.model.identifiers import TableId
from webapp.embedded.java_artifacts import all_fetched, java, listed

PROGRAM = Path(__file__).parent / "DebeziumReader.java"
JARS = Path(__file__).parent / "jars.txt"
SERVER_ID = 4_000_000_002
PREFIX, SLOT = "bench", "bench_debezium"


def jars() -> list[Path]:
    """Those of jars.txt: `group name version sha256` of the engine, its connectors and what they want.

    The list is what Ivy (pyspark's, as in java_artifacts) resolves for io.debezium:debezium-embedded,
    debezium-connector-mariadb and debezium-connector-postgres, all 3.5.0.Final, the newest that was there of all, with
    `-types jar bundle` and conf default; without what only a Kafka Connect server wants (jersey, jetty and what they
    bring).
    """
    return all_fetched(listed(JARS))


def command() -> list[str]:
    """SystemExit where there is no Java."""
    program = java()
    if program is None:
        raise SystemExit("Debezium wants a JDK, 17 or later: there is no java.")
    return [program, "-cp", ":".join(map(str, jars())), str(PROGRAM)]


def mariadb_orders(
    address: Mapping[str, Any], table: TableId, start: Mapping[str, Any], rows: int, folder: Path
) -> str:
    """The first line of the program's input; `start` is Tidemark's offset, the table is there already."""
    offset = {"file": start["file"], "pos": start["position"], "gtids": start["gtid"]}
    mode = {
        "bench.offset": json.dumps(offset),
        "snapshot.mode": "recovery",
    }  # schemas as they are now, rows from the offset on
    return _line(_settings(table, rows, folder) | _mariadb(address, table) | mode)


def snapshot_orders(
    kind: str, address: Mapping[str, Any], table: TableId, rows: int, folder: Path, signals: str | None = None
) -> str:
    """Of a snapshot: Debezium's plain one, after which it stops; or, with the name of a table of `signals`, one that a
    row there asks for.
    """
    (folder / "debezium-offset").unlink(missing_ok=True)
    if kind == "mysql":
        settings = _settings(table, rows, folder) | _mariadb(address, table) | {"snapshot.locking.mode": "none"}
    else:
        settings = _settings(table, rows, folder) | _postgres(address)
    if signals is None:
        return _line(settings | {"snapshot.mode": "initial_only"})
    included = {
        "table.include.list": f"{table},{signals}",
        "signal.data.collection": signals,
    }
    return _line(settings | included | {"snapshot.mode": "no_data"})


def signal(table: TableId) -> str:
    """What the row in the table of signals has in its column `data`."""
    return json.dumps({"data-collections": [str(table)], "type": "INCREMENTAL"})


def _settings(table: TableId, rows: int, folder: Path) -> dict[str, Any]:
    return {
        "bench.topic": f"{PREFIX}.{table}",
        "bench.rows": rows,
        "name": PREFIX,
        "topic.prefix": PREFIX,
        "table.include.list": table,
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": folder / "debezium-offset",
        "tombstones.on.delete": "false",
    }


def _mariadb(address: Mapping[str, Any], table: TableId) -> dict[str, Any]:
    return _login(address) | {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.ssl.mode": "disable",
        "database.server.id": SERVER_ID,
        "database.include.list": table.database,
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "include.schema.changes": "false",
    }


def _postgres(address: Mapping[str, Any]) -> dict[str, Any]:
    return _login(address) | {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.dbname": address["database"],
        "plugin.name": "pgoutput",
        "slot.name": SLOT,
        "publication.name": SLOT,
        "publication.autocreate.mode": "filtered",
    }


def _login(address: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "database.hostname": address["host"],
        "database.port": address["port"],
        "database.user": address["user"],
        "database.password": address["password"],
    }


def _line(settings: Mapping[str, Any]) -> str:
    return "\t".join(f"{name}={value}" for name, value in settings.items())
