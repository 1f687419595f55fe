"""Where segments lie: a folder, S3, GCS or HDFS, all through pyarrow.fs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from replicator.errors import StagingError
from replicator.faults import reach
from replicator.staging.failures import translated

_DENSE: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
_SYNCS = 8  # at a time: a journaling file system forces them together, so that 200 files take a tenth of the time
_REQUESTS = 16  # of an object store at a time
_PART_BYTES = 4 * 1024 * 1024
_OBJECTS = (pafs.S3FileSystem, pafs.GcsFileSystem)


class Storage:
    """Files by relative path below one URL (`file:///…`, `s3://bucket/prefix`, `gs://…`, `hdfs://…`).

    A store's address may stand in the URL's query as pyarrow has it (`?endpoint_override=…&scheme=…&region=…`).
    Credentials come from the environment (AWS_ACCESS_KEY_ID and so on), never from the URL.
    """

    def __init__(self, url: str) -> None:
        """The location is made on the first write; a bucket must be there."""
        place, mark, query = url.partition("?")
        self.url, self.query = place.rstrip("/"), mark + query
        try:
            self._fs, self._root = pafs.FileSystem.from_uri(self.url + self.query)
        except (OSError, pa.ArrowInvalid) as error:
            message = f"The staging location cannot be opened: {error}"
            raise StagingError(message) from error

    @property
    def on_disk(self) -> bool:
        """Every program of this machine can open the files."""
        return isinstance(self._fs, pafs.LocalFileSystem)

    def uri(self, path: str) -> str:
        """What Spark opens."""
        scheme = self.url.replace("s3://", "s3a://", 1)
        return f"{scheme}/{path}"

    def local(self, path: str) -> str:
        """The path inside the file system."""
        return str(PurePosixPath(self._root) / path)

    @contextmanager
    def writer(self, path: str, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
        """A Parquet writer with these pyarrow options and zstd; the file is complete and durable when the block ends.

        Raises StorageFull, StagingError.  A file that could not be finished is deleted: it must not keep a full disk
        full.
        """
        with translated(path):
            try:
                with self.begin(path, schema, **_DENSE, **options) as file:
                    yield file
                self.make_durable([path])
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(self.local(path))
                raise

    def begin(self, path: str, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
        """A Parquet file, with these options of pyarrow's.  Once it is closed it wants `make_durable`.  As `writer`."""
        full = self.local(path)
        with translated(path):
            reach("storage.open.before")
            if not isinstance(self._fs, _OBJECTS):  # they have no folders: it would be an empty object for each
                self._fs.create_dir(str(PurePosixPath(full).parent), recursive=True)
            return pq.ParquetWriter(full, schema, filesystem=self._fs, **options)

    def make_durable(self, paths: Sequence[str]) -> None:
        """Local files survive a power cut only after fsync; object stores are durable when closed (invariant 1).

        As `writer`.
        """
        if not paths:
            return
        with ThreadPoolExecutor(min(len(paths), _SYNCS), "sync") as pool:
            for _ in pool.map(self._sync, paths):
                pass
            for _ in pool.map(self._force, {str(PurePosixPath(path).parent) for path in paths}):
                pass

    def _sync(self, path: str) -> None:
        with translated(path):
            reach("storage.sync.before")
            self._force(path)

    def _force(self, path: str) -> None:
        if self.on_disk:
            with translated(path):
                handle = os.open(self.local(path), os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    @contextmanager
    def open(self, path: str) -> Iterator[pq.ParquetFile]:
        """A Parquet file, for reading in batches within the block; what fails there is translated too.

        Raises StagingError.
        """
        # From a store in few large requests: a segment's size bounds what they hold.
        with (
            translated(path, staged=True),
            pq.ParquetFile(self.local(path), filesystem=self._fs, pre_buffer=not self.on_disk) as file,
        ):
            yield file

    def fetch(self, path: str, to: Path) -> None:
        """A copy at this path of the local disk.  Raises StagingError; OSError where the disk fails."""
        with translated(path, staged=True):
            source = self._fs.open_input_stream(self.local(path))
        with source, to.open("wb") as copy:
            while part := self._read(source, path):
                copy.write(part)

    @staticmethod
    def _read(source: pa.NativeFile, path: str) -> bytes:
        with translated(path):
            return bytes(source.read(_PART_BYTES))

    def read(self, path: str) -> bytes:
        """A small file's bytes."""
        with translated(path), self._fs.open_input_stream(self.local(path)) as stream:
            return bytes(stream.read())

    def size(self, path: str) -> int:
        """Bytes."""
        with translated(path):
            return int(self._fs.get_file_info(self.local(path)).size)

    def delete(self, path: str) -> None:
        """Delete a file; a missing one is not an error."""
        with translated(path), suppress(FileNotFoundError):
            self._fs.delete_file(self.local(path))

    def delete_all(self, paths: Sequence[str]) -> None:
        """As `delete`; many at a time in a store, where each takes some requests."""
        if not isinstance(self._fs, _OBJECTS):
            for path in paths:
                self.delete(path)
            return
        with ThreadPoolExecutor(_REQUESTS, "delete") as pool:
            for _ in pool.map(self.delete, paths):
                pass

    def delete_tree(self, path: str) -> None:
        """Remove a folder with all its files; no error where there is none.

        In a store file by file: not every one takes the request that deletes many as pyarrow signs it.
        """
        if isinstance(self._fs, _OBJECTS):
            self.delete_all([self.path(info) for info in self.files(path)])
            with suppress(OSError):  # what stands for folders, where the store lets it
                self._fs.delete_dir(self.local(path))
            return
        with translated(path):
            if self._fs.get_file_info(self.local(path)).type is pafs.FileType.Directory:
                self._fs.delete_dir(self.local(path))

    def exists(self, path: str) -> bool:
        """True for a file."""
        with translated(path):
            return bool(self._fs.get_file_info(self.local(path)).type is pafs.FileType.File)

    def require(self, paths: Sequence[str]) -> None:
        """Raises StagedFileLost where one of these staged files does not exist."""
        for path in paths:
            with translated(path, staged=True):
                if self._fs.get_file_info(self.local(path)).type is not pafs.FileType.File:
                    raise FileNotFoundError(path)

    def path(self, info: Any) -> str:
        """Of one of `files`, as all other methods want it."""
        return str(info.path).removeprefix(self.local("")).lstrip("/")

    def files(self, path: str) -> list[Any]:
        """All files below `path` as pyarrow FileInfo (path inside the file system, size, mtime)."""
        selector = pafs.FileSelector(self.local(path), recursive=True, allow_not_found=True)
        with translated(path):
            return [info for info in self._fs.get_file_info(selector) if info.is_file]
