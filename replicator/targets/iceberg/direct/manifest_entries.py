"""Files that were written, as Iceberg's Java objects: with the statistics that readers prune by."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from replicator.targets.iceberg.direct.data_files import FILE_PATH_ID, POSITION_ID
from replicator.targets.iceberg.direct.scan_plan import Deletes, PlannedFile
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.parquet_files import Written


def data_files(table: IcebergTable, written: Sequence[Written]) -> list[PlannedFile]:
    """Column statistics are Iceberg's own reading of the footers, by the table's settings."""
    if not written:
        return []
    java = table.engine.java
    metrics = java("org.apache.iceberg.MetricsConfig").forTable(table.handle)
    io, spec = table.handle.io(), table.handle.spec()
    builder, parquet = (
        java("org.apache.iceberg.DataFiles").builder(spec),
        java("org.apache.iceberg.parquet.ParquetUtil"),
    )
    found = []
    for one in written:
        builder.withPath(one.uri).withFormat("parquet").withFileSizeInBytes(one.size)
        builder.withMetrics(parquet.fileMetrics(io.newInputFile(one.uri), metrics))
        found.append(PlannedFile(builder.build(), one.uri, one.rows, one.size))
    return found


def delete_files(table: IcebergTable, written: Mapping[str, Written]) -> dict[str, Deletes]:
    """Files of position deletes, or deletion vectors, by the data file whose rows they delete.

    Iceberg's JSON form of a scan task makes all of them in one call, where its builder takes a dozen calls for each.
    """
    if not written:
        return {}
    spec = int(table.metadata["default-spec-id"])
    task = {
        "task-type": "file-scan-task",
        "schema": {"type": "struct", "schema-id": 0, "fields": []},
        "spec": {"spec-id": spec, "fields": []},
        "start": 0,
        "length": 0,
        "delete-files": [_position_deletes(spec, uri, one) for uri, one in written.items()],
    }
    parser = table.engine.java("org.apache.iceberg.ScanTaskParser")
    made = parser.fromJson(json.dumps(task), True).deletes()  # noqa: FBT003 - py4j has no keywords
    return {uri: Deletes(made.get(i), one.uri, one.rows, one.blob) for i, (uri, one) in enumerate(written.items())}


def _position_deletes(spec: int, data_file: str, written: Written) -> Json:
    """Both bounds of the path are the data file's: readers that know no `referenced-data-file` go by these."""
    if written.blob is not None:
        return {
            "spec-id": spec,
            "content": "position-deletes",
            "file-path": written.uri,
            "file-format": "puffin",
            "file-size-in-bytes": written.size,
            "record-count": written.rows,
            "referenced-data-file": data_file,
            "content-offset": written.blob[0],
            "content-size-in-bytes": written.blob[1],
        }
    path = {"keys": [FILE_PATH_ID], "values": [data_file.encode().hex().upper()]}
    return {
        "spec-id": spec,
        "content": "position-deletes",
        "file-path": written.uri,
        "file-format": "parquet",
        "file-size-in-bytes": written.size,
        "record-count": written.rows,
        "value-counts": {"keys": [FILE_PATH_ID, POSITION_ID], "values": [written.rows, written.rows]},
        "null-value-counts": {"keys": [FILE_PATH_ID, POSITION_ID], "values": [0, 0]},
        "lower-bounds": path,
        "upper-bounds": path,
        "referenced-data-file": data_file,
    }
