"""What this version stores, byte for byte: a later version must read it, and must not write anything else by accident.

A golden file that changes is a decision.  `TIDEMARK_GOLDEN=write python -m pytest tests/golden` writes them again; then
say in CHANGELOG.md what changed and how the form that customers have stored is still read, and keep the old file beside
the new one (`name.1.json`, with a test that reads it).  tests/golden/README.md has the list.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator.model.change import ChangeBatch, SchemaChange
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import Column, TableSchema
from replicator.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    decimal,
)
from replicator.sources.base import KeyRange
from replicator.sources.mysql.offset import BinlogOffset, Past, parse_offset
from replicator.sources.mysql.stream.file_reader import read_file
from replicator.sources.oracle.offset import ScnOffset
from replicator.sources.oracle.offset import parse_offset as parse_scn_offset
from replicator.sources.oracle.rows.redo_rows import TableRows
from replicator.sources.postgres.offset import LastCommit, LsnOffset
from replicator.sources.postgres.offset import parse_offset as parse_lsn_offset
from replicator.sources.sqlserver import offset as sqlserver
from replicator.staging.naming import folder_name
from replicator.staging.storage import Storage
from replicator.staging.writer import SegmentWriter
from replicator.state.chunks import ChunkToRead, high_mark, low_mark, opened_mark, parse_mark
from replicator.state.journal import EventKind, SegmentKind, TableEvent
from replicator.state.tables import TableState
from replicator.targets.base import Position
from replicator.targets.iceberg.table import catalog, position, schema_update
from replicator.targets.iceberg.upkeep import maintenance
from replicator.telemetry.lags import BOUNDS, LagHistogram, tally
from tests.golden.make_binlogs import FOLDER as BINLOGS
from tests.property.oracle.redo_writer import GOLDEN_LAYOUT as REDO_LAYOUT
from tests.property.oracle.redo_writer import run_of
from webapp.replicators.options import DDL_PRESETS, ReplicatorOptions

FOLDER = Path(__file__).parent
HOW = "TIDEMARK_GOLDEN=write python -m pytest tests/golden, then record the decision in CHANGELOG.md"
WRITE = os.environ.get("TIDEMARK_GOLDEN") == "write"
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OFFSETS = {
    "mysql": BinlogOffset("mysql-bin.000003", 1462, f"{UUID}:1-5:7,{UUID}:blue:1-2"),
    "mariadb": BinlogOffset("binlog.000012", 4, "0-1-100,10-2-7"),
    "without gtids": BinlogOffset("b.999999", 4294967300),
    "with its past": BinlogOffset("b.000002", 1500, "0-1-100", Past("b.000001", 1700000000, 1469, 3735928559)),
}
TYPES = (
    BOOLEAN,
    INT,
    BIGINT,
    decimal(20, 0),
    decimal(38, 10),
    FLOAT,
    DOUBLE,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP_NTZ,
    TIMESTAMP,
)
SCHEMA = TableSchema(
    TableId("shop", "every type.é"),
    (
        Column("id", BIGINT, nullable=False, source_type="bigint(20)"),
        *(Column(f"c {kind}", kind, nullable=True, source_type=f"'{kind}'") for kind in TYPES),
        Column(
            "wide", STRING, nullable=True, source_type="decimal(65,30)", warning="more than 38 digits: it becomes text."
        ),
    ),
    ("id",),
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
VALUES: tuple[Any, ...] = (
    7, True, -(2**31), 2**63 - 1, Decimal(2**64 - 1), Decimal("-1234567890123456789012345678.0123456789"), 1.5,
    -2.25e300, "é😀",
    b"\0\xff", MOMENT.date(), MOMENT.replace(tzinfo=None), MOMENT, "1.5",
)  # fmt: skip


def golden(name: str, text: str) -> str:
    """The file's text, after it was held against `text`."""
    path = FOLDER / name
    if WRITE:
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    assert text == kept, f"{name} has another form now. If that is meant: {HOW}."
    return kept


def as_json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def test_offsets() -> None:
    kept = json.loads(golden("offsets.json", as_json({name: offset.to_dict() for name, offset in OFFSETS.items()})))
    for name, offset in OFFSETS.items():
        again = parse_offset(kept[name])
        assert (again.file, again.position, again.gtid) == (offset.file, offset.position, offset.gtid)
        assert again.past == offset.past


def test_offsets_of_postgres() -> None:
    """The first form is of versions that named no commit."""
    commit = LastCommit(0x16_B374_D800, 4_000_000_001, 1_795_433_267_625_466)
    offsets = {
        "first": LsnOffset(0x16_B374_D848),
        "running": LsnOffset(0x16_B374_D848, lambda: frozenset({"7", "*"})),
        "with its last commit": LsnOffset(0x16_B374_D848, lambda: frozenset({"7"}), last_commit=commit),
    }
    stored = as_json({name: offset.to_dict() for name, offset in offsets.items()})
    kept = json.loads(golden("postgres_offsets.json", stored))
    for name, offset in offsets.items():
        again = parse_lsn_offset(kept[name])
        assert (again, again.unsettled(), again.last_commit) == (offset, offset.unsettled(), offset.last_commit)


def test_offsets_of_oracle() -> None:
    offsets = {"first": ScnOffset(1_234_567), "with a restart": ScnOffset(17_179_869_184, 17_179_000_000, 925_702)}
    stored = as_json({name: offset.to_dict() for name, offset in offsets.items()})
    kept = json.loads(golden("oracle_offsets.json", stored))
    for name, offset in offsets.items():
        again = parse_scn_offset(kept[name])
        assert (again, again.restart, again.incarnation) == (offset, offset.restart, offset.incarnation)


def test_what_is_read_from_sql_redo() -> None:
    """`sql_redo.txt`: statements of every literal, as Oracle's manuals have them, one a line."""
    texts = (FOLDER / "sql_redo.txt").read_text(encoding="utf-8").splitlines()
    rows, verbs = TableRows(REDO_LAYOUT, "null"), [text.split()[0].lower() for text in texts]
    rows.add(run_of([text.encode() for text in texts], verbs), np.arange(len(texts)))
    read = [{name: str(value) for name, value in row.items()} for row in rows.take().to_pylist()]
    golden("sql_redo.json", as_json(read))


def test_offsets_of_sql_server() -> None:
    lsn = bytes.fromhex("0000002a000001f80003")
    commit = sqlserver.CommitPoint(lsn, "0000000004AB", "2026-11-23 10:11:12.123")
    offsets = {"first": sqlserver.LsnOffset(lsn), "with its last commit": sqlserver.LsnOffset(lsn, commit)}
    stored = as_json({name: offset.to_dict() for name, offset in offsets.items()})
    kept = json.loads(golden("sqlserver_offsets.json", stored))
    for name, offset in offsets.items():
        again = sqlserver.parse_offset(kept[name])
        assert isinstance(again, sqlserver.LsnOffset)
        assert (again, again.commit) == (offset, offset.commit)
    version = sqlserver.VersionOffset(4711)
    assert sqlserver.parse_offset(json.loads(golden("sqlserver_version.json", as_json(version.to_dict())))) == version


def test_a_schema_with_every_type() -> None:
    assert TableSchema.from_dict(json.loads(golden("schema.json", as_json(SCHEMA.to_dict())))) == SCHEMA


def test_marks_and_key_ranges() -> None:
    chunk = ChunkToRead(
        12,
        3,
        TableId("shop", "a"),
        "0f1e2d3c",
        KeyRange(("1", "X'61'"), ("2", "CAST('2024-01-01' AS DATE)")),
        keyless=False,
    )
    bounds = [list(chunk.bounds.lower or ()), list(chunk.bounds.upper or ()), None]
    kept = json.loads(
        golden(
            "marks.json",
            as_json({"marks": [mark(chunk) for mark in (low_mark, opened_mark, high_mark)], "bounds": bounds}),
        )
    )
    found = [parse_mark(token) for token in kept["marks"]]
    assert [(mark.kind, mark.run, mark.chunk, mark.attempt) for mark in found if mark] == [
        (kind, 3, 12, "0f1e2d3c") for kind in "LOH"
    ]
    from webapp.worker.store.journal import bounds_of

    assert bounds_of(kept["bounds"][0], kept["bounds"][1], [], "") == chunk.bounds
    assert bounds_of(kept["bounds"][2], None, [], "") == KeyRange()


def test_histograms_of_lags() -> None:
    """Counts of every width, at bounds that are the same for ever: else what was on time yesterday is not today."""
    counts = {"one byte": 7, "two": 300, "four": 70_000, "eight": 5_000_000_000}
    made = {name: LagHistogram() for name in ("empty", *counts)}
    for name, number in counts.items():
        for seconds in (0, 1, 299.99, 300, 90_000, 99e5):
            made[name].add_one(timedelta(seconds=seconds), number)
    stored = {name: one.to_bytes().hex() for name, one in made.items()}
    kept = json.loads(golden("lags.json", as_json({"bounds": " ".join(map(str, BOUNDS)), "stored": stored})))
    for name, text in kept["stored"].items():
        number = counts.get(name, 0)
        assert tally(bytes.fromhex(text), 300) == (4 * number, 6 * number)


def test_what_made_a_schema_version() -> None:
    from webapp.replicators.models import SchemaVersion
    from webapp.worker.store.schema_history import made_by

    detail = {"renamed_columns": {"a": "b"}, "keep_dropped": True, "decision": "rename column a to b"}
    event = TableEvent(TableId("shop", "a"), 7, EventKind.ALTER_TABLE, 2, MOMENT, detail)
    changes = {"announced": made_by(event, ("secret", "id2")), "found": made_by(None, ()), "from before": {}}
    kept = json.loads(golden("changes.json", as_json(changes)))
    read = {
        name: SchemaVersion(version=2, schema=SCHEMA.to_dict(), change=change).definition
        for name, change in kept.items()
    }
    told = read["announced"]
    assert (told.renamed, told.keep_dropped, told.left_out) == ({"a": "b"}, True, {"id2", "secret"})
    assert (read["found"].renamed, read["from before"].renamed) == ({}, None)


def test_names_that_are_stored() -> None:
    """Words in rows of the journal, in properties of target tables, and folders in staging."""
    names = {
        "event kinds": sorted(EventKind),
        "segment kinds": sorted(SegmentKind),
        "table states": sorted(TableState),
        "ddl presets": DDL_PRESETS,
        "modes": {mode: {name: str(kind) for name, kind in mode.columns.items()} for mode in Mode},
        "table properties": sorted(
            (catalog.OWNER, catalog.MODE, schema_update.KEPT, maintenance.CHECKED, position.SCHEMA_VERSION)
        ),
        "snapshot summary": sorted((position.APPLIED, position.LOADED, position.LOAD, catalog.STAGED)),
        "position": position.as_properties(Position(41, -1, 3, "L1")),
        "folders": {
            str(table): folder_name(table)
            for table in (TableId("shop", "a"), TableId("Shop", "A.é 1"), TableId("x" * 64, "y" * 64))
        },
    }
    kept = json.loads(golden("names.json", as_json(names)))
    assert position._said(kept["position"], 3) == Position(41, -1, 3, "L1")


def test_options_and_their_defaults() -> None:
    given = ReplicatorOptions(
        slo_minutes=0.5, ddl_policy=DDL_PRESETS["keep"], zero_dates="text", snapshot_parallel=7, snapshot_paused=True
    )
    kept = json.loads(
        golden("options.json", as_json({"defaults": ReplicatorOptions().to_dict(), "given": given.to_dict()}))
    )
    assert ReplicatorOptions.from_dict(kept["defaults"]) == ReplicatorOptions()
    assert ReplicatorOptions.from_dict(kept["given"]) == given
    # Before a lost log had options; before there were dead-letter rows; before snapshots had a pace; `on_poison`.
    for number in (1, 2, 3, 4):
        earlier = json.loads((FOLDER / f"options.{number}.json").read_text())
        found = [ReplicatorOptions.from_dict(earlier[name]) for name in ("defaults", "given")]
        assert found == [ReplicatorOptions(), given]


def test_a_sealed_secret_is_still_opened(settings: Any) -> None:
    from webapp.connections.secrets import seal, unseal

    settings.SECRET_KEY = "golden"
    path, secret = FOLDER / "secret.txt", {"password": "pässword", "ca": "-----BEGIN CERTIFICATE-----"}
    if WRITE:
        path.write_text(seal(secret) + "\n")
    assert unseal(path.read_text().strip()) == secret


def test_a_segment_keeps_its_columns_and_types(tmp_path: Path) -> None:
    storage = Storage(tmp_path.as_uri())
    writer = SegmentWriter(storage, "r1")
    nothing = (None,) * len(VALUES)
    rows = [(1, "INSERT", VALUES, nothing), (2, "UPDATE", VALUES, VALUES), (3, "DELETE", (7, *nothing[1:]), VALUES)]
    columns = [[row[0] for row in rows], [row[1] for row in rows], [MOMENT] * 3, ["0-1-1"] * 3, ["binlog.000001:4"] * 3]
    columns += [[row[part][at] for row in rows] for part in (2, 3) for at in range(len(VALUES))]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA.change_arrow, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA.change_arrow)
    writer.add(SCHEMA.table, 1, batch)
    sealed = writer.seal()
    assert sealed.durable(10)
    (segment,) = sealed.hand_out()
    written = (tmp_path / segment.path).read_bytes()
    kept = FOLDER / "segment.parquet"
    if WRITE:
        kept.write_bytes(written)
    found = pq.ParquetFile(kept)
    assert found.read().equals(pa.Table.from_batches([batch]))
    described = [[column.name, column.physical_type, str(column.logical_type)] for column in found.schema]
    fresh = pq.ParquetFile(pa.BufferReader(written))
    assert [[c.name, c.physical_type, str(c.logical_type)] for c in fresh.schema] == described
    compressed = {fresh.metadata.row_group(0).column(i).compression for i in range(len(fresh.schema))}
    golden(
        "segment.json",
        as_json(
            {
                "columns": described,
                "arrow": str(fresh.schema_arrow.remove_metadata()),
                "compression": sorted(compressed),
            }
        ),
    )


@pytest.mark.parametrize("path", sorted(BINLOGS.iterdir()), ids=lambda path: path.name)
def test_what_is_read_from_a_log(path: Path) -> None:
    """Values as they are staged: a decoder that reads them otherwise would make snapshot and log differ."""
    lines = []
    for message in read_file(path):
        if isinstance(message, ChangeBatch):
            lines += [f"{message.table} {row}" for row in message.data.to_pylist()]
        elif isinstance(message, SchemaChange):
            columns = (
                [(c.name, str(c.type), c.nullable, c.source_type) for c in message.schema.columns]
                if message.schema
                else []
            )
            lines.append(
                f"{message.table} {message.operation} {message.ordinal} {columns} {message.new_table or ''}".rstrip()
            )
        else:
            lines.append(str(message))
    golden(f"read/{path.name}.txt", "\n".join(lines) + "\n")


YAML = FOLDER / "replicators.yml"


@pytest.mark.django_db
def test_the_file_of_connections_and_replicators_means_the_same(request: pytest.FixtureRequest) -> None:
    from webapp.connections.models import Connection
    from webapp.console.definitions.apply import apply
    from webapp.replicators.models import Replicator
    from webapp.replicators.targets import public_target

    said = apply(YAML.read_text(encoding="utf-8"), {"SHOP_PASSWORD": "s3cret"})
    assert apply(YAML.read_text(encoding="utf-8"), {"SHOP_PASSWORD": "s3cret"}) == []
    connection, replicator = Connection.objects.get(), Replicator.objects.get()
    selection = [[s.database, s.table, s.excluded, s.excluded_columns] for s in replicator.selection.all()]
    made = {
        "said": said,
        "connection": [connection.name, connection.kind, connection.config],
        "replicator": [replicator.name, replicator.desired, public_target(replicator), replicator.options],
        "selection": selection,
    }
    golden("replicators.json", as_json(made))
