"""Where segments lie: a folder, S3, GCS or HDFS, all through pyarrow.fs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from replicator.errors import StagingError, StorageFull
from replicator.faults import reach

_SYNCS = 8  # at a time: a journaling file system forces them together, so that 200 files take a tenth of the time


class Storage:
    """Files by relative path below one URL (`file:///…`, `s3://bucket/prefix`, `gs://…`, `hdfs://…`)."""

    def __init__(self, url: str) -> None:
        """The location is made on the first write."""
        self.url = url.rstrip("/")
        try:
            self._fs, self._root = pafs.FileSystem.from_uri(self.url)
        except (OSError, pa.ArrowInvalid) as error:
            message = f"The staging location cannot be opened: {error}"
            raise StagingError(message) from error

    def uri(self, path: str) -> str:
        """What Spark opens."""
        scheme = self.url.replace("s3://", "s3a://", 1)
        return f"{scheme}/{path}"

    def local(self, path: str) -> str:
        """The path inside the file system."""
        return str(PurePosixPath(self._root) / path)

    @contextmanager
    def writer(self, path: str, schema: pa.Schema, **options: Any) -> Iterator[pq.ParquetWriter]:
        """A Parquet writer, with these options of pyarrow's; the file is complete and durable when the block ends.  Raises StorageFull, StagingError.

        Where it fails there is no file: half-written ones must not keep a full disk full.
        """
        with translated(path):
            try:
                with self.begin(path, schema, **options) as file:
                    yield file
                self.make_durable([path])
            except BaseException:
                with suppress(OSError):
                    self._fs.delete_file(self.local(path))
                raise

    def begin(self, path: str, schema: pa.Schema, *, small: bool = False, **options: Any) -> pq.ParquetWriter:
        """A Parquet file, with these options of pyarrow's.  Once it is closed it wants `make_durable`.  As `writer`.

        `small`: zstd's preparations would cost more than it saves.
        """
        full = self.local(path)
        with translated(path):
            reach("storage.open.before")
            self._fs.create_dir(str(PurePosixPath(full).parent), recursive=True)
            packing: dict[str, Any] = (
                {"compression": "snappy"} if small else {"compression": "zstd", "compression_level": 1}
            )
            return pq.ParquetWriter(full, schema, filesystem=self._fs, **packing, **options)

    def make_durable(self, paths: Sequence[str]) -> None:
        """Local files survive a power cut only after fsync; object stores are durable when closed (invariant 1).  As `writer`."""
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
        if isinstance(self._fs, pafs.LocalFileSystem):
            with translated(path):
                handle = os.open(self.local(path), os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    def open(self, path: str) -> pq.ParquetFile:
        """A Parquet file for reading in batches; the caller closes it."""
        with translated(path):
            return pq.ParquetFile(self.local(path), filesystem=self._fs)

    def size(self, path: str) -> int:
        """Bytes."""
        with translated(path):
            return int(self._fs.get_file_info(self.local(path)).size)

    def delete(self, path: str) -> None:
        """No error where there is no such file."""
        if self.exists(path):
            with translated(path):
                self._fs.delete_file(self.local(path))

    def delete_tree(self, path: str) -> None:
        """Remove a folder with all its files; no error where there is none."""
        with translated(path):
            if self._fs.get_file_info(self.local(path)).type is pafs.FileType.Directory:
                self._fs.delete_dir(self.local(path))

    def exists(self, path: str) -> bool:
        """True for a file."""
        with translated(path):
            return bool(self._fs.get_file_info(self.local(path)).type is pafs.FileType.File)

    def files(self, path: str) -> list[Any]:
        """All files below `path` as pyarrow FileInfo (path inside the file system, size, mtime)."""
        selector = pafs.FileSelector(self.local(path), recursive=True, allow_not_found=True)
        with translated(path):
            return [info for info in self._fs.get_file_info(selector) if info.is_file]


@contextmanager
def translated(path: str) -> Iterator[None]:
    """What went wrong with the file at `path`, as StorageFull or StagingError."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
            message = f"The staging location is full: {path} could not be written."
            raise StorageFull(message) from error
        message = f"The staging location failed at {path}: {error}"
        raise StagingError(message) from error
