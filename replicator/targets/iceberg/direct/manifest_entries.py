"""Files that were written, as Iceberg's Java objects: with the statistics that readers prune by."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from replicator.targets.iceberg.direct.data_files import FILE_PATH_ID, POSITION_ID
from replicator.targets.iceberg.direct.partitions import Partition, PartitionSpec, present_spec, specs
from replicator.targets.iceberg.direct.scan_plan import Deletes, PlannedFile
from replicator.targets.iceberg.jvm import content_files
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.parquet_files import Written

MAGIC, LENGTH = b"PAR1", 4


def data_files(table: IcebergTable, written: Sequence[Written]) -> list[PlannedFile]:
    """Column statistics are Iceberg's own reading of the footers, which are not read from the store again."""
    if not written:
        return []
    spec = present_spec(table)
    described = ({**_file(spec, one, one.partition), "content": "data", "file-format": "parquet"} for one in written)
    made = content_files.made(table.engine, table.handle, described, map(_footer, written))
    return [
        PlannedFile(java, one.uri, one.rows, one.size, (), spec.number, one.partition)
        for java, one in zip(made, written, strict=True)
    ]


def _footer(written: Written) -> bytes:
    """As it stands at the end of the file, without its length."""
    if written.metadata is None:
        raise AssertionError(written)
    sink = pa.BufferOutputStream()
    written.metadata.write_metadata_file(sink)
    return bytes(sink.getvalue())[len(MAGIC) : -LENGTH - len(MAGIC)]


def delete_files(table: IcebergTable, written: Sequence[tuple[PlannedFile, Written]]) -> dict[str, Deletes]:
    """Files of position deletes, or deletion vectors, by the data file whose rows they delete, and whose partition
    they are in.
    """
    if not written:
        return {}
    known = specs(table)
    described = (_position_deletes(known[file.spec], file, one) for file, one in written)
    made = content_files.made(table.engine, table.handle, described, ())
    return {
        file.uri: Deletes(java, one.uri, one.rows, one.blob) for java, (file, one) in zip(made, written, strict=True)
    }


def _position_deletes(spec: PartitionSpec, file: PlannedFile, written: Written) -> Json:
    """Both bounds of the path are the data file's: readers that know no `referenced-data-file` go by these."""
    said = {
        **_file(spec, written, file.partition),
        "content": "position-deletes",
        "referenced-data-file": file.uri,
    }
    if written.blob is not None:
        first, length = written.blob
        return {**said, "file-format": "puffin", "content-offset": first, "content-size-in-bytes": length}
    path = {"keys": [FILE_PATH_ID], "values": [file.uri.encode().hex().upper()]}
    return {
        **said,
        "file-format": "parquet",
        "value-counts": {"keys": [FILE_PATH_ID, POSITION_ID], "values": [written.rows, written.rows]},
        "null-value-counts": {"keys": [FILE_PATH_ID, POSITION_ID], "values": [0, 0]},
        "lower-bounds": path,
        "upper-bounds": path,
    }


def _file(spec: PartitionSpec, written: Written, partition: Partition) -> Json:
    return {
        "spec-id": spec.number,
        "partition": spec.as_json(partition),
        "file-path": written.uri,
        "file-size-in-bytes": written.size,
        "record-count": written.rows,
    }
