"""What is known of data files: Iceberg's statistics, which a batch may have rows in, and what need not be read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from replicator.folding.footers import KeyColumnRange
from replicator.targets.iceberg.direct.data_files import LakeFiles
from replicator.targets.iceberg.direct.file_cache import MEMORY
from replicator.targets.iceberg.direct.scan_plan import FEW, planned
from tests.integration.spark.lake import Lake
from tests.staged import delete, insert, schema_of, update

KEYED = schema_of({"id": "int", "v": "string"}, ["id"])
ALL = {
    "id": "int", "b": "boolean", "l": "bigint", "f": "float", "d": "double", "s": "string", "y": "binary", "t": "date",
    "ts": "timestamp", "tn": "timestamp_ntz", "n": "decimal(10,2)", "w": "decimal(38,10)",
}  # fmt: skip
NOON = dt.datetime(2026, 11, 27, 12, 0, 0, 5, dt.UTC)


def row(number: int) -> tuple[Any, ...]:
    text = "naïve \N{GRINNING FACE} " * number
    return (
        number, number % 2 == 0, 2**40 + number, 1.5 * number, -1e300 * number, text, bytes([255] * 3 * number),
        dt.date(1969, 12, number), NOON.replace(day=number), NOON.replace(day=number, tzinfo=None),
        Decimal(number).scaleb(-2), None,
    )  # fmt: skip


def test_statistics_of_a_file_are_those_that_iceberg_reads_in_it(lake: Lake) -> None:
    schema = schema_of(ALL, ["id"])
    table = lake.table(schema)
    lake.merge(table, schema, *[insert(n, *row(n)) for n in range(1, 20)])
    loaded = lake.target._catalog.require(table)
    java, spec = loaded.engine.java, loaded.handle.spec()
    metrics = java("org.apache.iceberg.MetricsConfig").forTable(loaded.handle)
    file = loaded.handle.newScan().includeColumnStats().planFiles().iterator().next().file()
    opened = loaded.handle.io().newInputFile(file.location())
    read = java("org.apache.iceberg.parquet.ParquetUtil").fileMetrics(opened, metrics)
    told = java("org.apache.iceberg.ContentFileParser").toJson
    said = told(file, spec)
    assert said == told(java("org.apache.iceberg.DataFiles").builder(spec).copy(file).withMetrics(read).build(), spec)
    assert '"lower-bounds":{"keys":[1,2,3,4,5,6,7,8,9,10,11' in said


def test_files_are_chosen_by_their_bounds_whether_they_were_written_or_planned(lake: Lake) -> None:
    table = lake.table(KEYED)
    for n in range(FEW + 4):
        lake.merge(table, KEYED, insert(n, 10 * n, "x"), insert(n, 10 * n + 5, "x"))
    loaded = lake.target._catalog.require(table)
    wanted = [KeyColumnRange("id", pa.int32(), 33, 41)]
    for _ in ("as it was carried on", "as it is read"):
        assert len(planned(loaded)) == FEW + 4
        assert sorted(file.rows for file in planned(loaded, wanted)) == [2, 2]
        assert planned(loaded, [KeyColumnRange("id", pa.int32(), 10_000, None)]) == []
        MEMORY.forget(list(MEMORY._kept))
    lake.merge(table, KEYED, update(100, (35, "x"), (35, "y")), delete(101, 40, "x"))
    assert dict(lake.rows(table))[35] == "y"
    assert len(lake.rows(table)) == 2 * (FEW + 4) - 1


def test_what_was_written_is_not_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table, opened = lake.table(KEYED), list[str]()
    lake.merge(table, KEYED, *[insert(n, n, "x") for n in range(100)])
    read = LakeFiles.open

    def noted(self: LakeFiles, uri: str, *args: Any, **named: Any) -> Any:
        opened.append(uri)
        return read(self, uri, *args, **named)

    monkeypatch.setattr(LakeFiles, "open", noted)
    seq = 100
    for n in range(5):
        lake.merge(table, KEYED, *[update(seq + i, (i, "x"), (i, f"y{n}")) for i in range(n, 100, 5)])
        seq += 100
    assert opened == []
    MEMORY.forget(list(MEMORY._kept))
    lake.merge(table, KEYED, *[update(seq + i, (i, "x"), (i, "z")) for i in range(0, 100, 2)])
    assert opened
    assert sorted(lake.rows(table)) == [(i, f"y{i % 5}" if i % 2 else "z") for i in range(100)]
