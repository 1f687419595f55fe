"""Files that wait to be deleted (invariant 11): lists in the table's own folder, checked again before anything is
deleted.

A list is one file of `<location>/waiting/`, written before the commit after which its files are not needed any more.
So a crash leaves at worst a list of files that are still needed, and the check against the table's present metadata
finds that out. Nothing about them is in a database: one that is restored, or that is behind, cannot make a file go.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError

from replicator.faults import reach
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.iceberg.upkeep.readable_history import FOLDER, LIST_NAME, METADATA, SNAPSHOTS, plain

METADATA_SECONDS = (
    3600  # older metadata files are not needed to find the newest, so they do not wait for the whole grace
)
MAX_SNAPSHOTS = 5000  # of one pass: the table's changes wait meanwhile
_MANIFEST = re.compile(r"\bpath=(.*?), length=\d")


@dataclass(frozen=True, order=True)
class PendingDeletions:
    """A list: when it was written (ms), what it lists, the table's last sequence number then, and about how many bytes
    it is about.
    """

    at: int
    kind: str
    sequence: int
    size: int
    uri: str

    def due(self, grace: float, now: float) -> bool:
        """May its files go?"""
        seconds = min(grace, METADATA_SECONDS) if self.kind == METADATA else grace
        return now - self.at / 1000 > seconds


def write(table: IcebergTable, kind: str, entries: Sequence[Any], size: int = 0) -> None:
    """List metadata files or other files by their paths, or snapshots as the specification has them."""
    entries = [_reduced(one) for one in entries] if kind == SNAPSHOTS else entries
    name = f"{int(time.time() * 1000)}.{kind}.{table.last_sequence}.{size}.{uuid.uuid4().hex}.json"
    stream = table.handle.io().newOutputFile(f"{_folder(table)}/{name}").create()
    try:
        stream.write(bytearray(json.dumps(entries).encode()))
    finally:
        stream.close()


def lists(table: IcebergTable) -> list[PendingDeletions]:
    """All, the oldest first: one listing of a folder that has a file per expiry pass of the last day."""
    names = [(uri, LIST_NAME.fullmatch(uri.rpartition("/")[2])) for uri in listed(table, _folder(table))]
    return sorted(
        PendingDeletions(int(name[1]), name[2], int(name[3]), int(name[4]), uri) for uri, name in names if name
    )


def behind(table: IcebergTable, found: Iterable[PendingDeletions]) -> bool:
    """The catalog names an older state of the table than one that was there before: a restored database.

    What it does not know may need what it does not name.
    """
    return any(one.sequence > table.last_sequence for one in found)


def delete_due(table: IcebergTable, found: Sequence[PendingDeletions], grace: float, now: float) -> int:
    """Delete files that waited long enough and are not needed, then their list.  Return the number of files.

    An interrupted deletion is repeated: a snapshot's manifest list goes last, a list after all its files.
    """
    due = [one for one in found if one.due(grace, now)]
    if not due or behind(table, found):
        return 0
    reach("apply.delete.before")
    needed = _metadata_files(table)
    if any(one.kind != METADATA for one in due):
        needed |= _reachable(table)
    deleted = snapshots = 0
    for one in due:
        entries = _read(table, one.uri)
        if one.kind == SNAPSHOTS:
            snapshots += len(entries)
            deleted += _delete_snapshots(table, entries, needed)
        else:
            deleted += _delete(table, entries, needed)
        reach("apply.delete.after")
        table.handle.io().deleteFile(one.uri)
        if snapshots > MAX_SNAPSHOTS:
            break
    return deleted


def expired_sizes(snapshots: Sequence[Json], gone: set[int]) -> int:
    """About how many bytes wait after these snapshots went: what their successors took away."""
    after = [s for s in snapshots if s.get("parent-snapshot-id") in gone]
    return sum(int(s.get("summary", {}).get("removed-files-size", 0)) for s in after)


def listed(table: IcebergTable, folder: str) -> list[str]:
    """Return the files below a folder; none where it does not exist."""
    try:
        iterator = table.handle.io().listPrefix(f"{folder}/").iterator()
    except Py4JJavaError as error:
        if "FileNotFoundException" in str(error.java_exception.toString()):
            return []
        raise
    found, base = [], urlsplit(folder)
    while iterator.hasNext():
        found.append(str(iterator.next().location()))
    # ADLSFileIO says the path in the container only.
    return [one if urlsplit(one).scheme else f"{base.scheme}://{base.netloc}/{one.lstrip('/')}" for one in found]


def _folder(table: IcebergTable) -> str:
    return f"{table.metadata['location'].rstrip('/')}/{FOLDER}"


def _read(table: IcebergTable, uri: str) -> list[Any]:
    stream = table.handle.io().newInputFile(uri).newStream()
    try:
        entries: list[Any] = json.loads(bytes(stream.readAllBytes()))
    finally:
        stream.close()
    return entries


def _delete(table: IcebergTable, paths: Iterable[str], needed: set[str]) -> int:
    gone = table.engine.java("java.util.ArrayList")()
    for path in dict.fromkeys(paths):
        if plain(path) not in needed:
            gone.add(path)
    if gone.size():
        table.handle.io().deleteFiles(gone)
    return int(gone.size())


def _delete_snapshots(table: IcebergTable, snapshots: Sequence[Json], needed: set[str]) -> int:
    """Data files, then manifests, then the manifest lists that name them."""
    io, kept = table.handle.io(), {s["snapshot-id"] for s in table.whole.get("snapshots", [])}
    manifests: dict[str, Any] = {}
    lists_ = []
    for snapshot in snapshots:
        uri = snapshot["manifest-list"]
        if snapshot["snapshot-id"] not in kept and io.newInputFile(uri).exists():  # kept: the commit was lost
            lists_.append(uri)
            _manifests(table, snapshot, manifests)
    dead = [m for path, m in manifests.items() if plain(path) not in needed and io.newInputFile(path).exists()]
    files = {file for manifest in dead for file in _files(table, manifest)}
    count = _delete(table, sorted(files), needed)
    reach("apply.delete.between")
    return count + _delete(table, manifests, needed) + _delete(table, lists_, needed)


def _reachable(table: IcebergTable) -> set[str]:
    """All that the present snapshots need: manifest lists, manifests, files, statistics."""
    manifests: dict[str, Any] = {}
    found = set()
    for snapshot in table.whole.get("snapshots", []):
        found.add(plain(snapshot["manifest-list"]))
        _manifests(table, snapshot, manifests)
    for manifest in manifests.values():
        found |= {plain(path) for path in _files(table, manifest)}
    statistics = (*table.whole.get("statistics", ()), *table.whole.get("partition-statistics", ()))
    return found | {plain(path) for path in manifests} | {plain(one["statistics-path"]) for one in statistics}


def _metadata_files(table: IcebergTable) -> set[str]:
    log = [one["metadata-file"] for one in table.whole.get("metadata-log", ())]
    return {plain(path) for path in (*log, table.base.metadataFileLocation())}


def _manifests(table: IcebergTable, snapshot: Json, known: dict[str, Any]) -> list[str]:
    """Paths of a snapshot's manifests; those that are new go into `known`.

    Two calls of the JVM, and one for each new one.
    """
    of = table.engine.java("org.apache.iceberg.SnapshotParser.fromJson")(json.dumps(_reduced(snapshot)))
    manifests = of.allManifests(table.handle.io())
    paths = _MANIFEST.findall(str(_joiner(table).join(manifests)))
    if len(paths) != manifests.size():
        raise AssertionError(paths)
    for place, path in enumerate(paths):
        if path not in known:
            known[path] = manifests.get(place)
    return paths


def _files(table: IcebergTable, manifest: Any) -> list[str]:
    """Live files of a manifest, in one call of the JVM."""
    paths = table.engine.java("org.apache.iceberg.ManifestFiles.readPaths")(
        manifest, table.handle.io(), table.base.specsById()
    )
    try:
        return [path for path in str(_joiner(table).join(paths)).split("\n") if path]
    finally:
        paths.close()


def _joiner(table: IcebergTable) -> Any:
    return table.engine.java("org.apache.iceberg.relocated.com.google.common.base.Joiner.on")("\n")


def _reduced(snapshot: Json) -> Json:
    """What is needed to read a snapshot's manifest list."""
    names = ("snapshot-id", "timestamp-ms", "sequence-number", "manifest-list", "schema-id")
    return {name: snapshot[name] for name in names if name in snapshot} | {"summary": {"operation": "overwrite"}}
