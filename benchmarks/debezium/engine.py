"""How `DebeziumReader.java` is run: by the source launcher, so that a JDK is all it needs (17 or later).

The settings are Debezium's own defaults, but for what spares it work: places and schemas are kept in memory (or written once a
minute), no tombstones, no records of DDL, records as Connect's own objects, which nobody converts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replicator.model.identifiers import TableId
from webapp.embedded.java_artifacts import Artifact, fetched, java

PROGRAM = Path(__file__).parent / "DebeziumReader.java"
JARS = Path(__file__).parent / "jars.txt"
SERVER_ID = 4_000_000_002
PREFIX = "bench"


def jars() -> list[Path]:
    """Those of jars.txt: `group name version sha256` of the engine, its connectors and what they want.

    The list is what Ivy (pyspark's, as in java_artifacts) resolves for io.debezium:debezium-embedded and
    debezium-connector-mariadb, both 3.5.0.Final, the newest that was there of both, with `-types jar bundle` and conf default; without
    what only a Kafka Connect server wants (jersey, jetty and what they bring).
    """
    return [fetched(Artifact(*line.split())) for line in JARS.read_text().splitlines()]


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
    settings = {
        "bench.topic": f"{PREFIX}.{table}",
        "bench.rows": rows,
        "bench.offset": json.dumps(offset),
        "name": PREFIX,
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "topic.prefix": PREFIX,
        "database.hostname": address["host"],
        "database.port": address["port"],
        "database.user": address["user"],
        "database.password": address["password"],
        "database.ssl.mode": "disable",
        "database.server.id": SERVER_ID,
        "database.include.list": table.database,
        "table.include.list": table,
        "snapshot.mode": "recovery",  # schemas as they are now, rows from the offset on
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": folder / "debezium-offset",
        "include.schema.changes": "false",
        "tombstones.on.delete": "false",
    }
    return "\t".join(f"{name}={value}" for name, value in settings.items())
