"""What of a table's past can be read, and what waits to be deleted: from its files alone, without a JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector

from replicator.errors import TargetError
from replicator.targets.iceberg.direct.file_systems import file_system, inside, root

if TYPE_CHECKING:
    from pyiceberg.table import Table

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


def readable(table: Table) -> Readable:
    """Of a table that pyiceberg has opened.  Raises TargetError where its folder cannot be looked into."""
    location, times = table.location(), [one.timestamp_ms for one in table.snapshots()]
    try:
        files = file_system(root(location), table.io.properties)
        found = files.get_file_info(FileSelector(inside(f"{location.rstrip('/')}/{FOLDER}"), allow_not_found=True))
    except (OSError, ArrowInvalid) as error:
        message = f"The folder of {'.'.join(table.name())} cannot be read: {error}"
        raise TargetError(message) from error
    names = [LIST_NAME.fullmatch(one.base_name) for one in found]
    oldest = datetime.fromtimestamp(min(times) / 1000, UTC) if times else None
    return Readable(oldest, len(times), sum(int(name[4]) for name in names if name))


def newest_metadata(named: str, store: Mapping[str, str]) -> str | None:
    """Of the table in whose folder the metadata file `named` was, the one with the highest version, of two the one that
    was written last.

    None where there is none.  store: properties of the FileIO.  OSError where the folder cannot be looked into.
    """
    folder, _, _ = named.rpartition("/")
    files = file_system(root(named), store).get_file_info(FileSelector(inside(folder), allow_not_found=True))
    found = [
        (int(name[1]), one.mtime_ns, one.base_name)
        for one in files
        if (name := _METADATA_NAME.fullmatch(one.base_name))
    ]
    return f"{folder}/{max(found)[2]}" if found else None


def plain(uri: str) -> str:
    """One form of each path: Hadoop writes `file:/`, Iceberg `file:///`."""
    return _LOCAL.sub("file:///", uri)
