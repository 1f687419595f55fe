"""Which data files a change has to look at, and what is deleted in them already."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from replicator.folding.footers import KeyColumnRange
from replicator.model.schema import SEQUENCE
from replicator.targets.iceberg.direct.data_files import FILE_PATH_ID, Unreadable
from replicator.targets.iceberg.direct.file_cache import MEMORY
from replicator.targets.iceberg.direct.partitions import Partition, PartitionSpec, specs
from replicator.targets.iceberg.direct.pruning import within
from replicator.targets.iceberg.jvm.content_files import JavaFile, ScannedFile, matching, scanned
from replicator.targets.iceberg.table.catalog import IcebergTable, Json
from replicator.targets.iceberg.table.layout import identifier_names
from replicator.targets.iceberg.table.row_lineage import FileOrigin, origin

MAX_REMEMBERED = 5_000
FEW = 16  # data files: their own footers are asked
MAX_SHARED = 5_000_000  # rows of a file of deletes of several data files: it is read as a whole


@dataclass(frozen=True)
class Deletes:
    """A file of position deletes, or a deletion vector in a file of several, with its first byte and length there.

    `java`: Iceberg's object, which a commit that removes it wants.
    shared: it may be another program's, and have rows of other data files too, so that it stays when one of them goes.
    """

    java: JavaFile
    uri: str
    rows: int
    blob: tuple[int, int] | None = None
    shared: bool = False

    @property
    def place(self) -> tuple[str, int]:
        """As `Written.place`."""
        return self.uri, self.blob[0] if self.blob else 0


@dataclass(frozen=True)
class PlannedFile:
    """A data file, and what is deleted in it.  `java`: as in `Deletes`; spec: the number of that of `partition`.

    origin: of a table of version 3, where the plan was read from the manifests.
    """

    java: JavaFile
    uri: str
    rows: int
    size: int
    deletes: tuple[Deletes, ...] = ()
    spec: int = 0
    partition: Partition = ()
    origin: FileOrigin | None = None

    @property
    def own_deletes(self) -> list[Deletes]:
        """Those that no other data file has."""
        return [one for one in self.deletes if not one.shared]

    @property
    def objects(self) -> list[JavaFile]:
        """Return Iceberg's objects of the file and of the deletes that are not shared with other files."""
        return [self.java, *(one.java for one in self.own_deletes)]

    @property
    def deleted(self) -> int:
        """Rows, at most."""
        return sum(min(one.rows, self.rows) for one in self.deletes)


def planned(table: IcebergTable, ranges: Sequence[KeyColumnRange] = ()) -> Sequence[PlannedFile]:
    """Data files of the snapshot in `table` that may hold rows in these key ranges, and perhaps others.

    Raises Unreadable.

    The plan is remembered, but of a table of very many files, and carried on from commit to commit: no manifest is read
    then.
    """
    if table.snapshot is None:
        return ()
    if table.total("data-files") > MAX_REMEMBERED:
        return _planned(table, table.handle.newScan().filter(within(table, ranges)))
    # By its id: the plan is remembered as this snapshot's.
    found = MEMORY.get(_place(table, table.snapshot), lambda: read_plan(table), _size)
    if not ranges or len(found) <= FEW:
        return found
    schema, condition = table.handle.schema(), within(table, ranges)
    return list(compress(found, matching(table.engine, schema, condition, [one.java for one in found])))


def read_plan(table: IcebergTable) -> tuple[PlannedFile, ...]:
    """All data files, from the manifests: with the numbers that Iceberg has given them, and statistics of the columns
    by which they are chosen.  Raises Unreadable.
    """
    columns = table.engine.java("java.util.ArrayList")()
    for name in (SEQUENCE, *identifier_names(table)):
        columns.add(name)
    return _planned(table, table.handle.newScan().useSnapshot(table.snapshot).includeColumnStats(columns))


def carry_on(table: IcebergTable, snapshot: int, gone: Collection[str], new: Sequence[PlannedFile]) -> None:
    """Our own commit `snapshot` has taken data files from the plan of `table`, and has put others there."""
    before = () if table.snapshot is None else MEMORY.known(_place(table, table.snapshot))
    if before is None:
        return
    after = (*(file for file in before if file.uri not in gone), *new)
    if len(after) <= MAX_REMEMBERED:
        MEMORY.put(_place(table, snapshot), after, _size(after))
    MEMORY.forget([_place(table, table.snapshot)])


def _place(table: IcebergTable, snapshot: int | None) -> tuple[object, ...]:
    """By the columns' types, too: Iceberg's objects have partitions of the types that were then."""
    return "plan", table.engine.generation, table.uuid, snapshot, table.metadata["current-schema-id"]


def _size(files: Sequence[PlannedFile]) -> int:
    return 2048 * (len(files) + 1)


def _planned(table: IcebergTable, scan: Any) -> tuple[PlannedFile, ...]:
    known = specs(table)
    return tuple(_described(one, known) for one in scanned(table.engine, scan.planFiles()))


def _described(scan: ScannedFile, known: Mapping[int, PartitionSpec]) -> PlannedFile:
    java, file = scan.data
    for one in (file, *(each for _, each in scan.deletes)):
        if one["file-format"].lower() != ("puffin" if _blob(one) else "parquet"):
            message = f"{one['file-format'].lower()} files"
            raise Unreadable(message)
    deletes = []
    for each, one in scan.deletes:
        shared = _data_file(one) != file["file-path"]
        if one["content"] != "position-deletes" or (shared and one["record-count"] > MAX_SHARED):
            raise Unreadable(one["content"].replace("-", " "))
        deletes.append(Deletes(each, one["file-path"], one["record-count"], _blob(one), shared))
    spec, size = known[file["spec-id"]], file["file-size-in-bytes"]
    partition = spec.partition(file.get("partition", []))
    rows, moved = file["record-count"], origin(scan.first_row, scan.sequence)
    return PlannedFile(java, file["file-path"], rows, size, tuple(deletes), spec.number, partition, moved)


def _blob(file: Json) -> tuple[int, int] | None:
    return (int(file["content-offset"]), int(file["content-size-in-bytes"])) if "content-offset" in file else None


def _data_file(deletes: Json) -> str | None:
    """Return the one data file whose rows they delete, by its name or by equal bounds of their paths.

    None where there may be several.
    """
    if named := deletes.get("referenced-data-file"):
        return str(named)
    low, high = (_bound(deletes.get(f"{end}-bounds", {})) for end in ("lower", "upper"))
    return bytes.fromhex(low).decode() if low is not None and low == high else None


def _bound(bounds: Json) -> str | None:
    found: dict[int, str] = dict(zip(bounds.get("keys", ()), bounds.get("values", ()), strict=True))
    return found.get(FILE_PATH_ID)
