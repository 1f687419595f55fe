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
# When a list was written (ms), what it lists, the table's last sequence number then, and about how many bytes it is about.
LIST_NAME = re.compile(rf"(\d+)\.({METADATA}|{SNAPSHOTS}|{PATHS})\.(\d+)\.(\d+)\.[0-9a-f]+\.json")
_LOCAL = re.compile(r"^file:/+")


@dataclass(frozen=True, slots=True)
class Readable:
    """`oldest`: when the oldest state that can be read was committed; None without any.  waiting: bytes, by the lists' estimates."""

    oldest: datetime | None
    snapshots: int
    waiting: int


def readable(metadata_location: str, query: str = "") -> Readable:
    """Of the table whose metadata file a catalog names; `query`: of the warehouse's URL, as `Storage` has it.  Raises StagingError."""
    location, _, file = metadata_location.rpartition("/metadata/")
    storage = Storage(plain(location).replace("s3a://", "s3://", 1) + query)
    data = storage.read(f"metadata/{file}")
    metadata = json.loads(gzip.decompress(data) if ".gz." in file else data)
    times = [snapshot["timestamp-ms"] for snapshot in metadata.get("snapshots", ())]
    names = [LIST_NAME.fullmatch(storage.path(info).rpartition("/")[2]) for info in storage.files(FOLDER)]
    oldest = datetime.fromtimestamp(min(times) / 1000, UTC) if times else None
    return Readable(oldest, len(times), sum(int(name[4]) for name in names if name))


def plain(uri: str) -> str:
    """One form of each path: Hadoop writes `file:/`, Iceberg `file:///`."""
    return _LOCAL.sub("file:///", uri)
