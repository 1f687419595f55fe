"""The Iceberg catalog through Iceberg's own Java API: the only place that speaks py4j, therefore the only one with
Any.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from replicator.errors import ConfigurationError, PositionLost, TargetConflict, TargetError, ValuesLost
from replicator.faults import reach
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE
from replicator.targets.base import FOREIGN_TABLE, TargetTable
from replicator.targets.iceberg.destination import OWNER
from replicator.targets.iceberg.jvm.engine import Engine
from replicator.targets.iceberg.jvm.executor import prompt_executor
from replicator.targets.iceberg.jvm.local_files import bypass_hadoop_permissions
from replicator.targets.iceberg.jvm.session import SparkPool, from_java_map, java_map
from replicator.targets.iceberg.jvm.table_states import table_states
from replicator.targets.iceberg.table.location import location, location_beside
from replicator.targets.iceberg.upkeep.readable_history import newest_metadata

MODE = "tidemark.mode"
STAGED = "wap.id"
MANAGED = "tidemark.managed-location"  # the catalog has chosen the table's folder, and keeps it
DROPPED = "tidemark_dropped"  # a namespace: legal in every catalog
STORE_PREFIXES = ("s3.", "client.region", "gcs.", "adls.")
EXPIRES = ("session-token-expires-at-ms", "token-expires-at")
EXPIRY_MARGIN = 300  # seconds: a merge takes minutes at most
MAX_SAID = 300
_METADATA = re.compile(r"(?:file|s3a?|gs|abfss?):/.*?\.metadata\.json")
RECENT = 20  # snapshots that a look at a table describes; there may be a thousand
Json = dict[str, Any]


@dataclass(frozen=True)
class Columns:
    """Ids of the columns that a part has (`parts.py`), and of those that its source dropped and the policy keeps."""

    own: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True)
class IcebergTable:
    """A table as its metadata file describes it; `metadata` has the form of the Iceberg specification.

    If there are many snapshots, it has only the newest; `whole` has all.
    `base` is the same metadata as Iceberg's own object: a commit that is based on this table compares with it.
    store: how its files are reached, as the destination or the catalog configures Iceberg's FileIO.
    columns_after: of a part (`parts.py`), its columns after the commit that is based on this table; None: as before.
    """

    name: TargetTable
    engine: Engine
    handle: Any
    base: Any
    metadata: Json
    snapshots: int
    store: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    columns_after: Columns | None = None

    @cached_property
    def whole(self) -> Json:
        """The metadata with all snapshots."""
        if len(self.metadata.get("snapshots", [])) == self.snapshots:
            return self.metadata
        return _as_json(self.engine, self.base)

    @property
    def properties(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.metadata.get("properties", {})
        return found

    @property
    def uuid(self) -> str:
        return str(self.metadata["table-uuid"])

    @property
    def snapshot(self) -> int | None:
        """Id of the present snapshot."""
        current = self.metadata.get("current-snapshot-id")
        return None if current in {None, -1} else int(current)

    @property
    def fields(self) -> list[Json]:
        """All columns in their order, as in the specification: `id`, `name`, `type`."""
        wanted = self.metadata["current-schema-id"]
        found: list[Json] = next(s["fields"] for s in self.metadata["schemas"] if s["schema-id"] == wanted)
        return found

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(name, Iceberg type) of the source's columns, without `_sequence_num` and the mode's own."""
        own = {SEQUENCE, *self.mode.columns}
        return [(f["name"], str(f["type"])) for f in self.fields if f["name"] not in own]

    @property
    def mode(self) -> Mode:
        """In which the table was made."""
        return Mode(self.properties.get(MODE, Mode.MIRROR))

    @property
    def data_location(self) -> str:
        """The folder of data files: the default of Iceberg's own writers, which Tidemark changes for no table."""
        return f"{self.metadata['location'].rstrip('/')}/data"

    @property
    def last_sequence(self) -> int:
        """Grows with every snapshot, staged ones among them."""
        return int(self.metadata.get("last-sequence-number", 0))

    def history(self) -> Iterator[Json]:
        """Snapshots from the present one back.  Raises TargetError where one is missing before the first."""
        by_id = {s["snapshot-id"]: s for s in self.metadata.get("snapshots", [])}
        at = self.snapshot
        while at is not None:
            if at not in by_id:
                by_id = {s["snapshot-id"]: s for s in self.whole.get("snapshots", [])}
            if at not in by_id:
                message = f"The snapshots of {self.name} that stored its progress have expired."
                remedy = "Resnapshot the table, and let only Tidemark expire snapshots."
                raise PositionLost(message, table=str(self.name), remedy=remedy)
            yield by_id[at]
            at = by_id[at].get("parent-snapshot-id")

    def staged(self, token: str) -> Json | None:
        """The snapshot that was written under this token and not made current."""
        snapshots: list[Json] = self.whole.get("snapshots", [])
        return next((s for s in reversed(snapshots) if s.get("summary", {}).get(STAGED) == token), None)

    def total(self, what: str) -> int:
        """`records`, `data-files`, `delete-files`, `files-size`, `position-deletes` of the present snapshot."""
        for snapshot in self.history():
            return int(snapshot["summary"].get(f"total-{what}", 0))
        return 0


class IcebergCatalog:
    """Tables of one replicator in the catalog.  Thread-safe."""

    def __init__(self, pool: SparkPool, replicator: str) -> None:
        """`replicator` marks the tables as ours."""
        self.pool, self.replicator = pool, replicator
        self._plain: int | None = None  # the engine whose files are written so
        self._known: dict[TargetTable, IcebergTable] = {}
        self._lock = threading.Lock()
        self._busy: set[SparkSession] = set()

    @contextmanager
    def session(self, settings: Mapping[str, str]) -> Iterator[SparkSession]:
        """One of the pool's, for this replicator's work; `interrupt` ends what runs in it."""
        with self.pool.session(settings) as spark:
            with self._lock:
                self._busy.add(spark)
            try:
                yield spark
            finally:
                with self._lock:
                    self._busy.discard(spark)

    def interrupt(self) -> None:
        """Spark's jobs for this replicator are cancelled.  Raises nothing: a JVM that is gone has none."""
        with self._lock:
            busy = list(self._busy)
        for spark in busy:
            with suppress(Exception):
                spark.interruptAll()

    def reset(self) -> None:
        """Nothing that was read is used again, and the catalog is signed in to again."""
        with self._lock:
            self._known.clear()
        self.pool.reset()

    def load(self, name: TargetTable) -> IcebergTable | None:
        """The table as it is now; None where it does not exist.  ConfigurationError where it is not ours."""
        found = self._load(name.whole)
        return replace(found, name=name) if found is not None and name.part else found

    def _load(self, name: TargetTable) -> IcebergTable | None:
        engine, catalog = self.pool.catalog()
        if (found := self._read_before(engine, name)) is not None:
            return found
        try:
            handle = catalog.loadTable(_identifier(engine, name))
        except Py4JJavaError as error:
            if _is(error, "NoSuchTableException", "NoSuchNamespaceException"):
                return None
            if _is(error, "NotFoundException"):
                if self._point_at_newest(engine, catalog, name, str(error.java_exception.getMessage())):
                    message = (
                        f"{name} was changed after the state in the restored metadata database. The table is"
                        " resnapshotted."
                    )
                    raise ValuesLost(message, table=str(name)) from None
                return None
            raise
        if self._plain != engine.generation:
            bypass_hadoop_permissions(engine, handle.io())
            self._plain = engine.generation
        base = handle.operations().current()
        return self._kept(_described(engine, name, handle, base, _store(engine, handle)))

    def _kept(self, table: IcebergTable) -> IcebergTable:
        found = self._ours(table)
        with self._lock:
            self._known[table.name] = found
        return found

    def _read_before(self, engine: Engine, name: TargetTable) -> IcebergTable | None:
        """The table by the handle that read it last: where the catalog still names the same metadata file, one query is
        all.
        """
        with self._lock:
            known = self._known.pop(name, None)
        if known is None or known.engine is not engine or _expiring(known.store):
            return None
        try:  # Glue says null of a table that another thread found missing just before
            base = table_states(engine).refreshed(known.handle, known.base)
        except Py4JJavaError as error:
            if _is(
                error, "NoSuchTableException", "IllegalStateException", "NotFoundException"
            ):  # or another table's UUID
                return None
            raise
        if base is None:
            return self._kept(known)
        fresh = _described(engine, name, known.handle, base, known.store)
        return self._kept(fresh) if fresh.uuid == known.uuid else None

    def require(self, name: TargetTable) -> IcebergTable:
        """Like `load`; TargetError where it does not exist."""
        found = self.load(name)
        if found is None:
            message = f"The target table {name} does not exist."
            raise TargetError(message, table=str(name))
        return found

    def again(self, table: IcebergTable) -> IcebergTable:
        """The same table, freshly read.  TargetConflict where another one has its name by now."""
        fresh = self.load(table.name)
        if fresh is None or fresh.uuid != table.uuid:
            raise _overtaken(table)
        return fresh

    def create(self, name: TargetTable, schema: Any, spec: Any, order: Any, properties: Mapping[str, str]) -> None:
        """Make the table, and its namespace if need be, in a folder that no other table has or had.

        A catalog that refuses this folder, as it chooses one itself, may do so.
        """
        engine, catalog = self.pool.catalog()
        self._namespace(engine, catalog, name)

        def builder() -> Any:
            given = java_map(engine, {**properties, OWNER: self.replicator})
            made = catalog.buildTable(_identifier(engine, name), schema).withPartitionSpec(spec).withSortOrder(order)
            return made.withProperties(given)

        if self.pool.config.warehouse:
            builder().withLocation(location(self.pool.config.warehouse, name)).create()
            return
        default = str(builder().createTransaction().table().location())  # nothing is made by that
        try:
            builder().withLocation(location_beside(default, name)).create()
        except Py4JJavaError as error:
            if not _is(error, "BadRequestException", "ForbiddenException", "ValidationException"):
                raise
            builder().withProperty(MANAGED, "true").create()

    def drop(self, table: IcebergTable, due: int) -> None:
        """The table goes to the namespace of dropped ones, where it waits until `due` (seconds since 1970).

        TargetConflict where it is not as it was read.
        """
        self._move(table, TargetTable(DROPPED, f"{due}_{uuid.uuid4().hex[:12]}"))

    def rename(self, table: IcebergTable, new: TargetTable) -> None:
        """The files stay where they are.  TargetConflict where it is not as it was read, or another has the name."""
        self._move(table, new)

    def _move(self, table: IcebergTable, new: TargetTable) -> None:
        """Rename the table; undo it where another table had its name.

        A catalog renames any table of that name: a worker that stalled for longer than its lease would take another's
        table away.  So the renamed table is checked, and gets its name back if it is another one.
        """
        engine, catalog = self.pool.catalog()
        self._namespace(engine, catalog, new)
        here, there = _identifier(engine, table.name), _identifier(engine, new)
        try:
            catalog.renameTable(here, there)
        except Py4JJavaError as error:
            if _is(error, "NoSuchTableException", "NoSuchNamespaceException"):
                raise _overtaken(table) from None
            if new.namespace == DROPPED and _is(
                error, "UnsupportedOperationException"
            ):  # a catalog that renames nothing
                catalog.dropTable(here, MANAGED in table.properties)
                return
            if not _is(error, "AlreadyExistsException"):
                raise
            message = f"{table.name} cannot be renamed: {new} was created by another worker."
            raise TargetConflict(message, table=str(table.name)) from error
        reach("apply.moved.before")
        found = catalog.loadTable(there).operations().current()
        if (str(found.uuid()), found.metadataFileLocation()) != (table.uuid, table.base.metadataFileLocation()):
            catalog.renameTable(there, here)
            raise _overtaken(table)

    def dropped(self) -> list[str]:
        """Names of tables in the namespace of dropped ones."""
        engine, catalog = self.pool.catalog()
        namespace = _identifier(engine, TargetTable(DROPPED, "any")).namespace()
        try:
            return [str(one.name()) for one in catalog.listTables(namespace)]
        except Py4JJavaError as error:
            if _is(error, "NoSuchNamespaceException"):
                return []
            raise

    def purge(self, name: str) -> None:
        """A dropped table with all its files."""
        engine, catalog = self.pool.catalog()
        there = _identifier(engine, TargetTable(DROPPED, name))
        try:
            handle = catalog.loadTable(there)
        except Py4JJavaError as error:
            if not _is(error, "NotFoundException"):  # its files are gone: what remains is the name
                raise
            catalog.dropTable(there, False)  # noqa: FBT003 - py4j has no keywords
            return
        if MANAGED in handle.properties():
            catalog.dropTable(there, True)  # noqa: FBT003
            return
        for part in ("data/", "waiting/", ""):  # metadata goes last: an interrupted deletion is repeated
            with suppress(Py4JJavaError):
                handle.io().deletePrefix(f"{str(handle.location()).rstrip('/')}/{part}")
        catalog.dropTable(there, False)  # noqa: FBT003

    def _point_at_newest(self, engine: Engine, catalog: Any, name: TargetTable, said: str) -> bool:
        """Point the catalog at the newest metadata file, as the one that it names is gone: it is in an older state.

        A journal in a database of the same age is outdated, too: the table must be resnapshotted.  False where there is
        no metadata file any more: the catalog then forgets the table, which is gone with its rows.
        """
        old = _METADATA.search(said)
        if old is None or not self.pool.config.own:  # whose table it is stands in the file: it may be another's
            message = f"The catalog names a metadata file of {name} that is missing: {said[:MAX_SAID]}"
            raise TargetError(message, table=str(name), remedy="Restore the file, or drop the table in the catalog.")
        known = self.pool.config.catalog
        new = newest_metadata(old[0], {key: known[key] for key in known if key.startswith(STORE_PREFIXES)})
        identifier = _identifier(engine, name)
        catalog.dropTable(identifier, False)  # noqa: FBT003 - py4j has no keywords
        if new:
            catalog.registerTable(identifier, new)
        return bool(new)

    def _ours(self, table: IcebergTable) -> IcebergTable:
        owner = table.properties.get(OWNER)
        if owner == self.replicator:
            return table
        whose = "another replicator" if owner else "another writer"
        message = f"The target table {table.name} exists already and belongs to {whose}."
        raise ConfigurationError(message, table=str(table.name), remedy=FOREIGN_TABLE)

    @staticmethod
    def _namespace(engine: Engine, catalog: Any, name: TargetTable) -> None:
        namespace = _identifier(engine, name).namespace()
        if not catalog.namespaceExists(namespace):
            try:
                catalog.createNamespace(namespace)
            except Py4JJavaError:  # another worker was quicker
                if not catalog.namespaceExists(namespace):
                    raise


def _described(engine: Engine, name: TargetTable, handle: Any, base: Any, store: Mapping[str, str]) -> IcebergTable:
    count, _, text = str(table_states(engine).described(base, RECENT)).partition("\n")
    return IcebergTable(name, engine, handle, base, json.loads(text), int(count), store)


def _store(engine: Engine, handle: Any) -> dict[str, str]:
    """Return the properties of the store that a table's FileIO was given, including secrets."""
    said = from_java_map(engine, handle.io().properties())
    return {key: value for key, value in said.items() if key.startswith(STORE_PREFIXES)}


def _expiring(store: Mapping[str, str]) -> bool:
    """Were these credentials lent by the catalog, and will they end soon?"""
    ends = [int(value) for key, value in store.items() if key.rpartition(".")[2] in EXPIRES and value.isdigit()]
    return bool(ends) and min(ends) / 1000 < time.time() + EXPIRY_MARGIN


def _as_json(engine: Engine, base: Any) -> Json:
    found: Json = json.loads(engine.java("org.apache.iceberg.TableMetadataParser.toJson")(base))
    return found


def _overtaken(table: IcebergTable) -> TargetConflict:
    message = f"{table.name} was changed or recreated by another worker."
    return TargetConflict(message, table=str(table.name))


def publish(table: IcebergTable, updated: Any) -> None:
    """Make `updated` the table's metadata, if and only if it still is what `table` says.

    One compare-and-set on the metadata file: no other commit can come in between, not even an empty one.  So the
    position that was read before the work still holds when the work becomes visible (invariants 3, 4, 5).
    """
    table_states(table.engine).publish(table.handle, table.base, updated)


def with_staged(table: IcebergTable, fresh: IcebergTable, snapshot: Json, properties: Mapping[str, str | None]) -> Any:
    """The metadata of `fresh` with its staged snapshot made current, and these properties.

    TargetConflict where the table is not as `table` says.
    """
    if fresh.snapshot != table.snapshot or snapshot.get("parent-snapshot-id") != table.snapshot:
        message = f"Another worker committed to {table.name} in the meantime."
        raise TargetConflict(message, table=str(table.name))
    build = fresh.engine.java("org.apache.iceberg.TableMetadata.buildFrom")(fresh.base)
    return with_properties(fresh, build.setBranchSnapshot(snapshot["snapshot-id"], "main"), properties).build()


def with_properties(table: IcebergTable, build: Any, properties: Mapping[str, str | None]) -> Any:
    """The builder of metadata, with these properties set, and without those that are None."""
    gone = table.engine.java("java.util.HashSet")()
    for name in (name for name, value in properties.items() if value is None):
        gone.add(name)
    kept = {name: value for name, value in properties.items() if value is not None}
    return build.setProperties(java_map(table.engine, kept)).removeProperties(gone)


@dataclass(frozen=True)
class PreparedSnapshot:
    """A snapshot that is written and not published: the metadata with it.

    snapshot: its id; removed: how many files it takes away.
    """

    table: IcebergTable
    updated: Any
    snapshot: int
    removed: int

    def remove(self) -> None:
        """Its own manifests; what cannot be removed is an orphan, which maintenance removes."""
        io, snapshot = self.table.handle.io(), self.updated.currentSnapshot()
        with suppress(Py4JJavaError):
            gone = [str(m.path()) for m in snapshot.allManifests(io) if m.snapshotId() == snapshot.snapshotId()]
            for path in (*gone, snapshot.manifestListLocation()):
                io.deleteFile(path)


def prepared(
    table: IcebergTable,
    build: Callable[[Any], Any],
    said: Mapping[str, str],
    kept: Callable[[int], Mapping[str, str | None]],
) -> PreparedSnapshot:
    """Write the snapshot of the update that `build` makes, on a transaction on the table as it was read.

    kept: properties that the same commit sets, given the snapshot's sequence number.

    Raises TargetConflict where another table has its name by now.
    """
    try:
        transaction = (
            table.handle.newTransaction()
        )  # it reads the catalog's row again: `publish` refuses what is newer than `table`
    except Py4JJavaError as error:
        if _is(error, "NoSuchTableException", "IllegalStateException"):  # the latter: another table's UUID
            raise _overtaken(table) from None
        raise
    update, states = build(transaction), table_states(table.engine)
    # Of a table that is newer than `table` the number would be another; it is refused.
    properties = json.dumps(kept(table.last_sequence + 1))
    pool = prompt_executor(table.engine)
    updated = states.prepared(transaction, update, pool, json.dumps(dict(said)), properties)
    snapshot, *removed = map(int, str(states.current(updated)).split())
    return PreparedSnapshot(table, updated, snapshot, sum(removed))


def refused(error: Exception) -> bool:
    """Did the compare-and-set certainly not happen?"""
    return isinstance(error, Py4JJavaError) and _is(error, "CommitFailedException")


def without_snapshots(table: IcebergTable, gone: Iterable[int], properties: Mapping[str, str]) -> Any:
    """The table's metadata without these snapshots, and with these properties."""
    numbers = table.engine.java("java.util.HashSet")()
    for number in gone:
        numbers.add(number)
    build = table.engine.java("org.apache.iceberg.TableMetadata.buildFrom")(table.base)
    if properties:
        build = build.setProperties(java_map(table.engine, properties))
    return build.removeSnapshots(numbers).build()


def stage_nothing(table: IcebergTable, summary: Mapping[str, str]) -> None:
    """A staged snapshot without a change of rows."""
    append = table.handle.newFastAppend().stageOnly()
    for key, value in summary.items():
        append.set(key, value)
    append.commit()


def _identifier(engine: Engine, name: TargetTable) -> Any:
    text = json.dumps({"namespace": [name.namespace], "name": name.name})
    return engine.java("org.apache.iceberg.catalog.TableIdentifierParser.fromJson")(text)


def _is(error: Py4JJavaError, *classes: str) -> bool:
    return str(error.java_exception.getClass().getSimpleName()) in classes
