"""The target's own files through pyarrow: Parquet as Iceberg wants it."""

from __future__ import annotations

import errno
import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from replicator.errors import StorageFull, TargetError
from replicator.model.schema import SEQUENCE
from replicator.targets.iceberg.direct.file_systems import file_system, inside, root
from replicator.targets.iceberg.direct.key_index import Places, ascending
from replicator.targets.iceberg.table.catalog import IcebergTable
from replicator.targets.iceberg.table.deletion_vectors import decode, puffin
from replicator.targets.iceberg.table.layout import BLOOM
from replicator.targets.iceberg.table.types import from_iceberg

FIELD_ID = b"PARQUET:field_id"
BLOOM_FILTERED = b"bloom"  # of a field: its files have Bloom filters of it
FALSE_POSITIVES = 0.01  # of Bloom filters, as Iceberg's own writers have it
FILE_PATH_ID, POSITION_ID = 2147483546, 2147483545  # reserved by the Iceberg specification
POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_ID)}),
    ]
)
ROW_GROUP_ROWS = 250_000
ROW_GROUP_BYTES = 64 * 1024 * 1024
FOLDERS = (pafs.LocalFileSystem, pafs.HadoopFileSystem)
FILE_BYTES = 512 * 1024 * 1024  # of rows in memory; a fraction of it in the file


@dataclass(frozen=True)
class Written:
    """A file that nobody names yet; of a deletion vector, with where in it the vector is (first byte, length)."""

    uri: str
    rows: int
    size: int
    blob: tuple[int, int] | None = None

    @property
    def place(self) -> tuple[str, int]:
        """No other file of deletes, or vector, has it."""
        return self.uri, self.blob[0] if self.blob else 0


@contextmanager
def _translated(uri: str) -> Iterator[None]:
    """What went wrong with a file of the target, as StorageFull or TargetError."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
            message = f"The target's storage is full: {uri} could not be written."
            raise StorageFull(message, remedy="Free space at the location of the target's tables.") from error
        message = f"Reading or writing a target file failed: {uri}: {error}"
        raise TargetError(message) from error


class LakeFiles:
    """Files by their URI as Iceberg has it (`file:/…`, `s3a://…`), all in one file system."""

    def __init__(self, files: pafs.FileSystem) -> None:
        """Opens nothing."""
        self._fs = files

    def open(self, uri: str, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """For reading, these columns as dictionaries; the caller closes it."""
        with _translated(uri):
            return pq.ParquetFile(self._inside(uri), filesystem=self._fs, read_dictionary=list(dictionaries))

    @contextmanager
    def writer(
        self, uri: str, schema: pa.Schema, *, dictionaries: bool | list[str] = True, group_rows: int = ROW_GROUP_ROWS
    ) -> Iterator[pq.ParquetWriter]:
        """Where the block fails there is no file.  Raises StorageFull, TargetError."""
        inside, filtered = self._inside(uri), {"ndv": group_rows, "fpp": FALSE_POSITIVES}
        with _translated(uri):
            self._make_folder(inside)
            try:
                with pq.ParquetWriter(
                    inside,
                    schema,
                    filesystem=self._fs,
                    compression="zstd",
                    compression_level=1,
                    use_dictionary=dictionaries,
                    store_decimal_as_integer=True,
                    store_schema=False,
                    write_page_index=False,
                    bloom_filter_options={
                        one.name: filtered for one in schema if BLOOM_FILTERED in (one.metadata or {})
                    },
                ) as file:
                    yield file
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(inside)
                raise

    def size(self, uri: str) -> int:
        """Bytes."""
        with _translated(uri):
            return int(self._fs.get_file_info(self._inside(uri)).size)

    def delete(self, uris: Iterable[str]) -> None:
        """As far as they are there, and as far as it can be done: what stays is an orphan, which maintenance
        removes.
        """
        for uri in uris:
            with suppress(OSError):
                self._fs.delete_file(self._inside(uri))

    def write_rows(self, uri: str, rows: pa.Table) -> Written:
        """A data file."""
        with self.writer(uri, rows.schema, group_rows=min(rows.num_rows, ROW_GROUP_ROWS)) as file:
            file.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        return Written(uri, rows.num_rows, self.size(uri))

    def write_positions(self, uri: str, data_file: str, rows: Places) -> Written:
        """Position deletes of one data file; `rows` ascending."""
        path = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), [data_file])
        schema = POSITIONS.set(0, POSITIONS.field(0).with_type(path.type))  # in the file it is a string: hashed once
        with self.writer(uri, schema, dictionaries=["file_path"]) as file:
            file.write_table(pa.table([path, pa.array(rows)], schema=schema))
        return Written(uri, len(rows), self.size(uri))

    def write_vectors(self, uri: str, rows: Mapping[str, Places]) -> dict[str, Written]:
        """Deletion vectors of these data files, in one file."""
        content, places = puffin(rows)
        path = self._inside(uri)
        with _translated(uri):
            self._make_folder(path)
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
        with _translated(uri), self._fs.open_input_file(self._inside(uri)) as file:
            content = file.read_at(length, first)
        try:
            return decode(content)
        except ValueError as error:
            message = f"{uri}: {error}"
            raise TargetError(message) from error

    def positions(self, uri: str, data_file: str) -> Places:
        """What a file of position deletes says of this data file, ascending."""
        with self.open(uri, dictionaries=["file_path"]) as file:
            data = by_id(file.read(), [FILE_PATH_ID, POSITION_ID]).combine_chunks()
        found = [np.zeros(0, np.int64)]
        for paths, places in zip(data.column(0).chunks, data.column(1).chunks, strict=True):
            mine = paths.indices.to_numpy() == paths.dictionary.index(data_file).as_py()
            found.append(places.to_numpy()[mine])
        return ascending(found)

    def _make_folder(self, path: str) -> None:
        if isinstance(self._fs, FOLDERS):  # an object store has none: it would be an empty object for each
            self._fs.create_dir(str(PurePosixPath(path).parent), recursive=True)

    def _inside(self, uri: str) -> str:
        return inside(uri)


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
    """The table's columns in their order, with Iceberg's ids."""
    fields = []
    for field in table.fields:
        kind = from_iceberg(str(field["type"]))
        if kind is None:
            raise AssertionError(field)  # `require_columns` has refused it
        required, named = bool(field["required"]), {FIELD_ID: str(field["id"]).encode()}
        if table.properties.get(f"{BLOOM}{field['name']}") == "true" and not pa.types.is_boolean(kind.arrow):
            named[BLOOM_FILTERED] = b""
        fields.append(pa.field(field["name"], kind.arrow, nullable=not required, metadata=named))
    return pa.schema(fields)


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows under the target's columns; one that the source no longer has is null."""
    there = set(rows.column_names)
    columns = [
        rows.column(field.name) if field.name in there else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


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


def by_id(data: pa.Table, wanted: Sequence[int]) -> pa.Table:
    """The columns with these ids.  KeyError where one is missing."""
    places = {number: place for place, number in enumerate(field_ids(data.schema))}
    return data.select([places[number] for number in wanted])


def write_stream(
    files: LakeFiles, new_file: Callable[[], str], schema: pa.Schema, rows: Iterable[pa.Table]
) -> list[Written]:
    """Data files of bounded size; none where there are no rows."""
    groups = _row_groups(rows)
    found: list[Written] = []
    group = next(groups, None)
    while group is not None:
        uri, count, size = new_file(), 0, 0
        with files.writer(uri, schema, group_rows=len(group)) as file:
            while group is not None and size < FILE_BYTES:
                file.write_table(group, row_group_size=len(group))
                count, size = count + len(group), size + group.nbytes
                group = next(groups, None)
        found.append(Written(uri, count, files.size(uri)))
    return found


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables become row groups of bounded size."""
    held: list[pa.Table] = []
    rows = size = 0
    for one in tables:
        if len(one):
            held.append(one)
            rows, size = rows + len(one), size + one.nbytes
        if rows >= ROW_GROUP_ROWS or size >= ROW_GROUP_BYTES:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)


def new_data_file(table: IcebergTable, ending: str = "parquet") -> str:
    """A name of its own for a data file or a file of deletes."""
    return f"{table.data_location}/{uuid.uuid4().hex}.{ending}"


def sequence_id(table: IcebergTable) -> int:
    """Iceberg's id of _sequence_num."""
    return next(int(field["id"]) for field in table.fields if field["name"] == SEQUENCE)
