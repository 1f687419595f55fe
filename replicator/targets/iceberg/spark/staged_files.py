"""Staged files for Spark: it opens them where they are.  If they are in a store and Spark in this process, it opens
copies.

Spark reads a store through Hadoop's S3A, whose jars weigh more than all of Spark's and have separate settings; pyarrow
has the staging location open already.  A batch's files are read once from the store in either case.
"""

from __future__ import annotations

import errno
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath
from shutil import rmtree

from replicator.errors import StagingError, StorageFull
from replicator.staging.storage import Storage
from replicator.state.journal import Segment
from replicator.targets.iceberg.spark.changes import Staged

FOLDER = "tidemark-segments-"
COPIES = 8  # at a time
FORGOTTEN = 24 * 3600  # seconds: only copies of a killed worker are that old


@contextmanager
def staged(storage: Storage, segments: Sequence[Segment], *, here: bool) -> Iterator[list[Staged]]:
    """For `changes.read`, within the block.  `here`: Spark runs on this machine.

    The disk holds the files of one batch at a time and merge.  Raises StagedFileLost, StagingError, StorageFull.
    """
    if storage.on_disk or not here:
        storage.require([segment.path for segment in segments])
        yield [_named(segment, storage.uri(segment.path)) for segment in segments]
        return
    with ExitStack() as kept:
        places = _copied(storage, segments, kept)
        yield [_named(segment, place.as_uri()) for segment, place in zip(segments, places, strict=True)]


def _copied(storage: Storage, segments: Sequence[Segment], kept: ExitStack) -> list[Path]:
    """In a folder that goes with `kept`."""
    try:
        _remove_forgotten()
        folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix=FOLDER)))
        places = [folder / PurePosixPath(segment.path).name for segment in segments]  # unique by themselves
        with ThreadPoolExecutor(COPIES, "copy") as pool:
            for _ in pool.map(storage.fetch, [segment.path for segment in segments], places):
                pass
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            message = "The temporary folder is full: a batch's staged files do not fit."
            raise StorageFull(message, remedy="Free space there, or point TMPDIR elsewhere.") from error
        message = f"A staged file could not be copied to the temporary folder: {error.strerror}."
        raise StagingError(message, remedy="Check that the temporary folder (TMPDIR) can be written.") from error
    return places


def _named(segment: Segment, uri: str) -> Staged:
    read_at = segment.journaled_at if segment.reads else None
    return Staged(uri, segment.bare, segment.first_sequence, segment.without, read_at)


def _remove_forgotten() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > FORGOTTEN:
                rmtree(folder)
