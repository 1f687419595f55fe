"""Data files of a target through pyarrow: Parquet as every lake reads it."""

from __future__ import annotations

import errno
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from replicator.errors import StorageFull, TargetError

ROW_GROUP_ROWS = 250_000
ROW_GROUP_BYTES = 64 * 1024 * 1024
FOLDERS = (pafs.LocalFileSystem, pafs.HadoopFileSystem)
BLOOM_FILTERED = b"bloom"  # of a field: its files have Bloom filters of it
FALSE_POSITIVES = 0.01  # of Bloom filters, as Iceberg's own writers have it
SPLIT_ROWS, SPLIT_BYTES = 2 * ROW_GROUP_ROWS, 2 * ROW_GROUP_BYTES  # are split by partitions at once
OPEN_FILES = 32  # of one stream, where partitions are many: each takes memory
SMALL_FILE = 1024 * 1024  # bytes: it is read as a whole
FILE_BYTES = 512 * 1024 * 1024  # of rows in memory; a fraction of it in the file


Split = Callable[[pa.Table], Iterator[tuple[tuple[Any, ...], pa.Table]]]


@dataclass(frozen=True)
class Written:
    """A file that no commit names yet; of a deletion vector, with where in it the vector is (first byte, length).

    metadata: the footer of a data file.  partition: its partition, where its table has any.
    """

    uri: str
    rows: int
    size: int
    blob: tuple[int, int] | None = None
    metadata: pq.FileMetaData | None = None
    partition: tuple[Any, ...] = ()

    @property
    def place(self) -> tuple[str, int]:
        """No other file of deletes, or vector, has it."""
        return self.uri, self.blob[0] if self.blob else 0


@contextmanager
def translated(uri: str) -> Iterator[None]:
    """What went wrong with a file of the target, as StorageFull or TargetError."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
            message = f"The target's storage is full: {uri} could not be written."
            raise StorageFull(message, remedy="Free space at the location of the target's tables.") from error
        message = f"Reading or writing a target file failed: {uri}: {error}"
        raise TargetError(message) from error


@dataclass
class FileWriter:
    """A file that is being written.  size: its bytes, once it is closed."""

    parquet: pq.ParquetWriter
    size: int = 0

    @property
    def footer(self) -> pq.FileMetaData:
        """Once it is closed."""
        return self.parquet.writer.metadata


class ParquetFiles:
    """Files by their URI, all in one file system."""

    def __init__(self, files: pafs.FileSystem, inside: Callable[[str], str] = str) -> None:
        """Opens nothing.  inside: the path in the file system of a URI."""
        self._fs, self._inside = files, inside

    def open(self, uri: str, size: int = 0, *, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        """For reading, these columns as dictionaries; the caller closes it.

        size: in bytes, where it is known: of a small file all comes at once.
        """
        with translated(uri):
            file = self._fs.open_input_file(self._inside(uri))
            source = pa.BufferReader(file.read_buffer()) if 0 < size <= SMALL_FILE else file
            far = not isinstance(self._fs, FOLDERS)  # a request for each column would be too many
            return pq.ParquetFile(source, read_dictionary=list(dictionaries), pre_buffer=far)

    @contextmanager
    def writer(
        self, uri: str, schema: pa.Schema, *, dictionaries: bool | list[str] = True, group_rows: int = ROW_GROUP_ROWS
    ) -> Iterator[FileWriter]:
        """Write a file, which is deleted where the block fails.  Raises StorageFull, TargetError."""
        path, filtered = self._inside(uri), {"ndv": group_rows, "fpp": FALSE_POSITIVES}
        with translated(uri):
            self.make_folder(path)
            try:
                with self._fs.open_output_stream(path, compression=None) as stream:
                    with pq.ParquetWriter(
                        stream,
                        schema,
                        compression="zstd",
                        compression_level=1,
                        use_dictionary=dictionaries,
                        store_decimal_as_integer=True,
                        store_schema=False,
                        write_page_index=False,
                        bloom_filter_options={
                            one.name: filtered for one in schema if BLOOM_FILTERED in (one.metadata or {})
                        },
                    ) as parquet:
                        file = FileWriter(parquet)
                        yield file
                    file.size = int(stream.tell())  # a store asked for it would be one request more
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(path)
                raise

    def delete(self, uris: Iterable[str]) -> None:
        """As far as they are there, and as far as it can be done: what stays is an orphan, which maintenance
        removes.
        """
        for uri in uris:
            with suppress(OSError):
                self._fs.delete_file(self._inside(uri))

    def write_rows(self, uri: str, rows: pa.Table, partition: tuple[Any, ...] = ()) -> Written:
        """A data file."""
        with self.writer(uri, rows.schema, group_rows=min(rows.num_rows, ROW_GROUP_ROWS)) as file:
            file.parquet.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        return Written(uri, rows.num_rows, file.size, metadata=file.footer, partition=partition)

    def make_folder(self, path: str) -> None:
        """Where a file needs one; an object store has none: it would be an empty object for each."""
        if isinstance(self._fs, FOLDERS):
            self._fs.create_dir(str(PurePosixPath(path).parent), recursive=True)


def shaped(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows under the target's columns; one that the source no longer has is null."""
    there = set(rows.column_names)
    columns = [
        rows.column(field.name) if field.name in there else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


class DataFileStream:
    """Data files of bounded size, one open for each partition that had rows lately."""

    def __init__(
        self, files: ParquetFiles, new_file: Callable[[], str], schema: pa.Schema, opened: ExitStack, most: int
    ) -> None:
        """Where `opened` ends with an exception, files that are open are removed."""
        self._most = most
        self._files, self._new_file, self._schema, self._opened = files, new_file, schema, opened
        self._open: OrderedDict[tuple[Any, ...], _OpenFile] = OrderedDict()
        self.written: list[Written] = []

    def write(self, partition: tuple[Any, ...], rows: pa.Table) -> None:
        """One row group."""
        file = self._open.get(partition) or self._begin(partition, len(rows))
        file.writer.parquet.write_table(rows, row_group_size=len(rows))
        file.rows, file.size = file.rows + len(rows), file.size + rows.nbytes
        self._open.move_to_end(partition)
        if file.size >= self._most:
            self._end(partition)

    def end(self) -> list[Written]:
        """All that was written."""
        for partition in list(self._open):
            self._end(partition)
        return self.written

    def _begin(self, partition: tuple[Any, ...], group_rows: int) -> _OpenFile:
        if len(self._open) >= OPEN_FILES:
            self._end(next(iter(self._open)))
        uri, closing = self._new_file(), ExitStack()
        self._opened.push(closing.__exit__)
        writer = closing.enter_context(self._files.writer(uri, self._schema, group_rows=group_rows))
        self._open[partition] = _OpenFile(uri, writer, closing)
        return self._open[partition]

    def _end(self, partition: tuple[Any, ...]) -> None:
        file = self._open.pop(partition)
        file.closing.close()
        done = file.writer
        self.written.append(Written(file.uri, file.rows, done.size, metadata=done.footer, partition=partition))


@dataclass
class _OpenFile:
    uri: str
    writer: FileWriter
    closing: ExitStack
    rows: int = 0
    size: int = 0


def write_stream(
    files: ParquetFiles,
    new_file: Callable[[], str],
    schema: pa.Schema,
    rows: Iterable[pa.Table],
    most: int | None = None,
    split: Split | None = None,
) -> list[Written]:
    """Write data files of bounded size; none where there are no rows.

    most: bytes of a file's rows in memory, about.  split: by partitions, where there are any.
    """
    with ExitStack() as opened:
        stream = DataFileStream(files, new_file, schema, opened, FILE_BYTES if most is None else most)
        if split is None:
            for block in _blocks(rows, ROW_GROUP_ROWS, ROW_GROUP_BYTES):
                stream.write((), block)
        else:
            for block in _blocks(rows, SPLIT_ROWS, SPLIT_BYTES):
                for partition, part in split(block):
                    stream.write(partition, part)
        return stream.end()


def _blocks(tables: Iterable[pa.Table], most: int, most_bytes: int) -> Iterator[pa.Table]:
    """Small tables become blocks of bounded size."""
    held: list[pa.Table] = []
    rows = size = 0
    for one in tables:
        if len(one):
            held.append(one)
            rows, size = rows + len(one), size + one.nbytes
        if rows >= most or size >= most_bytes:
            yield pa.concat_tables(held)
            held, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(held)
