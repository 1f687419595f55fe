"""What of a table's past can be read, and what waits to be deleted: from its files alone, without a JVM."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from replicator.staging.storage import Storage

FOLDER = "waiting"
METADATA, SNAPSHOTS, PATHS = "metadata", "snapshots", "paths"
# When a list was written (ms), what it lists, the table's last sequence number then, and about how many bytes it is
# about.
LIST_NAME = re.compile(rf"(\d+)\.({METADATA}|{SNAPSHOTS}|{PATHS})\.(\d+)\.(\d+)\.[0-9a-f]+\.json")
_METADATA_NAME = re.compile(r"(\d+)-[0-9a-f-]+(?:\.gz)?\.metadata\.json")
_LOCAL = re.compile(r"^file:/+")


@dataclass(frozen=True, slots=True)
class Readable:
    """`oldest`: when the oldest state that can be read was committed; None without any.  waiting: bytes, by the lists'
    estimates.
    """

    oldest: datetime | None
    snapshots: int
    waiting: int


def readable(metadata_location: str, query: str = "") -> Readable:
    """Of the table whose metadata file a catalog names; `query`: of the warehouse's URL, as `Storage` has it.

    Raises StagingError.
    """
    location, _, file = metadata_location.rpartition("/metadata/")
    storage = _storage(location, query)
    data = storage.read(f"metadata/{file}")
    metadata = json.loads(gzip.decompress(data) if ".gz." in file else data)
    times = [snapshot["timestamp-ms"] for snapshot in metadata.get("snapshots", ())]
    names = [LIST_NAME.fullmatch(storage.path(info).rpartition("/")[2]) for info in storage.files(FOLDER)]
    oldest = datetime.fromtimestamp(min(times) / 1000, UTC) if times else None
    return Readable(oldest, len(times), sum(int(name[4]) for name in names if name))


def newest_metadata(named: str, query: str = "") -> str | None:
    """Of the table in whose folder the metadata file `named` was, the one with the highest version, of two the one that
    was written last.

    None where there is none.  `query`: see `readable`.
    """
    folder, _, _ = named.rpartition("/")
    if not folder:
        return None
    storage = _storage(folder, query)
    files = [(storage.path(info), info.mtime_ns) for info in storage.files("")]
    found = [(int(name[1]), at, path) for path, at in files if (name := _METADATA_NAME.fullmatch(path))]
    return f"{folder}/{max(found)[2]}" if found else None


def _storage(location: str, query: str) -> Storage:
    return Storage(plain(location).replace("s3a://", "s3://", 1) + query)


def plain(uri: str) -> str:
    """One form of each path: Hadoop writes `file:/`, Iceberg `file:///`."""
    return _LOCAL.sub("file:///", uri)
