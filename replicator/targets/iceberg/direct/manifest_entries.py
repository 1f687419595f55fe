"""Files that were written, as Iceberg's Java objects: with the statistics that readers prune by."""

from __future__ import annotations

import json
from collections.abc import Sequence

from replicator.targets.iceberg.direct.data_files import FILE_PATH_ID, POSITION_ID
from replicator.targets.iceberg.direct.partitions import PartitionSpec, present_spec, specs
from replicator.targets.iceberg.direct.scan_plan import Deletes, PlannedFile
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.parquet_files import Written


def data_files(table: IcebergTable, written: Sequence[Written]) -> list[PlannedFile]:
    """Column statistics are Iceberg's own reading of the footers, by the table's settings."""
    if not written:
        return []
    java = table.engine.java
    metrics = java("org.apache.iceberg.MetricsConfig").forTable(table.handle)
    io, handle, spec = table.handle.io(), table.handle.spec(), present_spec(table)
    builder, parquet = (
        java("org.apache.iceberg.DataFiles").builder(handle),
        java("org.apache.iceberg.parquet.ParquetUtil"),
    )
    found = []
    for one in written:
        if spec.fields:
            values = json.dumps(spec.as_struct(one.partition))
            builder.withPartition(java("org.apache.iceberg.SingleValueParser.fromJson")(handle.partitionType(), values))
        builder.withPath(one.uri).withFormat("parquet").withFileSizeInBytes(one.size)
        builder.withMetrics(parquet.fileMetrics(io.newInputFile(one.uri), metrics))
        found.append(PlannedFile(builder.build(), one.uri, one.rows, one.size, (), spec.number, one.partition))
    return found


def delete_files(table: IcebergTable, written: Sequence[tuple[PlannedFile, Written]]) -> dict[str, Deletes]:
    """Files of position deletes, or deletion vectors, by the data file whose rows they delete, and whose partition
    they are in.

    Iceberg's JSON form of a scan task makes all of a spec in one call, where its builder takes a dozen for each.
    """
    found: dict[str, Deletes] = {}
    for number in {file.spec for file, _ in written}:
        mine = [(file, one) for file, one in written if file.spec == number]
        task = _task(table, specs(table)[number], mine)
        parser = table.engine.java("org.apache.iceberg.ScanTaskParser")
        made = parser.fromJson(json.dumps(task), True).deletes()  # noqa: FBT003 - py4j has no keywords
        found |= {file.uri: Deletes(made.get(i), one.uri, one.rows, one.blob) for i, (file, one) in enumerate(mine)}
    return found


def _task(table: IcebergTable, spec: PartitionSpec, written: Sequence[tuple[PlannedFile, Written]]) -> Json:
    schema: Json = {"type": "struct", "schema-id": 0, "fields": table.fields if spec.fields else []}
    described = next(one for one in table.metadata["partition-specs"] if one["spec-id"] == spec.number)
    return {
        "task-type": "file-scan-task",
        "schema": schema,
        "spec": described,
        "start": 0,
        "length": 0,
        "delete-files": [
            {**_position_deletes(spec.number, file.uri, one), "partition": spec.as_json(file.partition)}
            for file, one in written
        ],
    }


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
