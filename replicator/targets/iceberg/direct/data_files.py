"""The target's own files through pyarrow: Parquet as Iceberg wants it."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from replicator.errors import StorageFull, TargetError
from replicator.model.schema import SEQUENCE
from replicator.targets.iceberg.direct.file_systems import file_system, inside, root
from replicator.targets.iceberg.direct.key_index import Places, ascending
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.deletion_vectors import decode, puffin
from replicator.targets.iceberg.table.layout import BLOOM
from replicator.targets.iceberg.table.types import from_iceberg
from replicator.targets.parquet_files import BLOOM_FILTERED, ParquetFiles, Written, translated

FIELD_ID = b"PARQUET:field_id"
FILE_PATH_ID, POSITION_ID = 2147483546, 2147483545  # reserved by the Iceberg specification
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_ID)}),
    ]
)


class Unreadable(Exception):
    """The table has files that only Iceberg's own readers understand."""


class LakeFiles(ParquetFiles):
    """Files by their URI as Iceberg has it (`file:/…`, `s3a://…`)."""

    def __init__(self, files: pafs.FileSystem) -> None:
        """Opens nothing."""
        super().__init__(files, inside)

    def write_positions(self, uri: str, data_file: str, rows: Places) -> Written:
        """Position deletes of one data file; `rows` ascending."""
        path = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [data_file])
        schema = POSITIONS.set(0, POSITIONS.field(0).with_type(path.type))  # in the file it is a string: hashed once
        with self.writer(uri, schema, dictionaries=["file_path"]) as file:
            file.parquet.write_table(pa.table([path, pa.array(rows)], schema=schema))
        return Written(uri, len(rows), file.size)

    def write_vectors(self, uri: str, rows: Mapping[str, Places]) -> dict[str, Written]:
        """Deletion vectors of these data files, in one file."""
        content, places = puffin(rows)
        path = self._inside(uri)
        with translated(uri):
            self.make_folder(path)
            try:
                with self._fs.open_output_stream(path, compression=None) as stream:
                    stream.write(content)
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(path)
                raise
        return {one: Written(uri, len(rows[one]), len(content), blob) for one, blob in places.items()}

    def vector(self, uri: str, blob: tuple[int, int]) -> Places:
        """Rows that a deletion vector has, ascending.  TargetError for a damaged one."""
        first, length = blob
        with translated(uri), self._fs.open_input_file(self._inside(uri)) as file:
            content = file.read_at(length, first)
        try:
            return decode(content)
        except ValueError as error:
            message = f"{uri}: {error}"
            raise TargetError(message) from error

    def positions(self, uri: str) -> dict[str, Places]:
        """What a file of position deletes says, by data file, ascending.  Raises Unreadable."""
        with self.open(uri, dictionaries=["file_path"]) as file:
            readable(file.schema_arrow, {FILE_PATH_ID, POSITION_ID})
            data = by_id(file.read(), [FILE_PATH_ID, POSITION_ID])
        found: dict[str, list[Places]] = {}
        for chunk in data.to_batches():
            numbers, places = chunk.column(0).indices.to_numpy(), chunk.column(1).to_numpy()
            order = (
                np.argsort(numbers, kind="stable") if len(chunk.column(0).dictionary) > 1 else np.arange(len(places))
            )
            for mine in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
                if len(mine):
                    found.setdefault(chunk.column(0)[mine[0].item()].as_py(), []).append(places[mine])
        return {path: ascending(parts) for path, parts in found.items()}


def lake_files(table: IcebergTable) -> LakeFiles | None:
    """Of the store that the table is in; None where pyarrow cannot write there: then Spark does everything."""
    return _lake_files(root(table.data_location), tuple(sorted(table.store.items())))


@functools.lru_cache(maxsize=64)
def _lake_files(place: str, store: tuple[tuple[str, str], ...]) -> LakeFiles | None:
    """Where pyarrow gets its credentials elsewhere than Iceberg, the store may be open to the one and closed to the
    other: a file is written and deleted to know.
    """
    try:
        files = LakeFiles(file_system(place, dict(store)))
        if not place.startswith(("file:", "s3")) and not store:
            probe = f"{place.rstrip('/')}/.tidemark-{uuid.uuid4().hex}.parquet"
            files.write_positions(probe, "", np.zeros(0, np.int64))
            files.delete([probe])
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, TargetError, StorageFull):
        return None
    return files


def target_schema(table: IcebergTable) -> pa.Schema:
    """The table's columns in their order, with Iceberg's ids.

    Raises Unreadable where another program added a column of a type that Tidemark never makes.
    """
    fields = []
    for field in table.fields:
        kind = from_iceberg(str(field["type"]))
        if kind is None:
            raise Unreadable("column types of other programs")
        required, named = bool(field["required"]), {FIELD_ID: str(field["id"]).encode()}
        if table.properties.get(f"{BLOOM}{field['name']}") == "true" and not pa.types.is_boolean(kind.arrow):
            named[BLOOM_FILTERED] = b""
        fields.append(pa.field(field["name"], kind.arrow, nullable=not required, metadata=named))
    return pa.schema(fields)


def projected(data: pa.Table | pa.RecordBatch, target: pa.Schema) -> pa.Table:
    """What a file of the table has, under the table's present columns: by their ids, null where the file is older."""
    places = {number: place for place, number in enumerate(field_ids(data.schema))}
    columns = [
        data.column(places[number]).cast(field.type) if number in places else pa.nulls(data.num_rows, field.type)
        for number, field in zip(field_ids(target), target, strict=True)
    ]
    return pa.table(columns, schema=target)


def field_ids(schema: pa.Schema) -> list[int]:
    """Iceberg's ids of a file's columns; -1 for one without."""
    return [int((field.metadata or {}).get(FIELD_ID, b"-1")) for field in schema]


def readable(schema: pa.Schema, needed: Collection[int]) -> None:
    """Raises Unreadable where a file of another program lacks ids, or needed columns (its partition tells them)."""
    ids = set(field_ids(schema))
    if -1 in ids or not ids.issuperset(needed):
        raise Unreadable("files without column ids or partition columns")


def by_id(data: pa.Table, wanted: Sequence[int]) -> pa.Table:
    """The columns with these ids.  KeyError where one is missing."""
    places = {number: place for place, number in enumerate(field_ids(data.schema))}
    return data.select([places[number] for number in wanted])


def new_data_file(table: IcebergTable, ending: str = "parquet") -> str:
    """Return a new name for a data file or a file of deletes."""
    return f"{table.data_location}/{uuid.uuid4().hex}.{ending}"


def sequence_id(table: IcebergTable) -> int:
    """Iceberg's id of _sequence_num."""
    return next(int(field["id"]) for field in table.fields if field["name"] == SEQUENCE)
