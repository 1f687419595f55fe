"""The Iceberg catalog through Iceberg's own Java API: the only place that speaks py4j, therefore the only one with
Any.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from replicator.errors import ConfigurationError, TargetConflict, TargetError, ValuesLost
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.jvm.jvm import Engine
from replicator.targets.iceberg.jvm.local_files import bypass_hadoop_permissions
from replicator.targets.iceberg.jvm.session import CATALOG, SparkPool, java_map
from replicator.targets.iceberg.upkeep.readable_history import newest_metadata

OWNER = "tidemark.replicator"
MODE = "tidemark.mode"
STAGED = "wap.id"
RECENT = 20  # snapshots that a look at a table describes; there may be a thousand
Json = dict[str, Any]


@dataclass(frozen=True)
class IcebergTable:
    """A table as its metadata file says it is; `metadata` has the form of the Iceberg specification.

    Of many snapshots it has the newest only; `whole` has all.
    `base` is the same metadata as Iceberg's own object: what a commit that goes by this table compares with.
    """

    name: TargetTable
    engine: Engine
    handle: Any
    base: Any
    metadata: Json
    snapshots: int

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
        """The folder of data files; as Iceberg's own writers have it, which no table of ours is told to change."""
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
                raise TargetError(
                    message,
                    table=str(self.name),
                    remedy="Resnapshot the table, and let only Tidemark expire snapshots.",
                )
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

    def load(self, name: TargetTable) -> IcebergTable | None:
        """The table as it is now; None where it does not exist.  ConfigurationError where it is not ours."""
        engine, catalog = self.pool.catalog()
        if (found := self._read_before(engine, name)) is not None:
            return found
        try:
            handle = catalog.loadTable(_identifier(engine, name))
        except Py4JJavaError as error:
            if _is(error, "NoSuchTableException", "NoSuchNamespaceException"):
                return None
            if _is(error, "NotFoundException"):
                if self._point_at_newest(engine, name):
                    message = (
                        f"{name} was changed after the state in the restored metadata database. The table is"
                        " resnapshotted."
                    )
                    raise ValuesLost(message, table=str(name)) from None
                return None
            raise
        if self._plain != engine.generation and self.pool.config.warehouse.startswith("file:"):
            bypass_hadoop_permissions(engine, handle.io())
            self._plain = engine.generation
        return self._kept(self._described(engine, name, handle))

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
        if known is None or known.engine is not engine:
            return None
        try:
            location = known.handle.operations().refresh().metadataFileLocation()
        except Py4JJavaError as error:
            if _is(
                error, "NoSuchTableException", "IllegalStateException", "NotFoundException"
            ):  # or another table's UUID
                return None
            raise
        same = location == known.base.metadataFileLocation()
        return self._kept(known if same else self._described(engine, name, known.handle))

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

    def create(self, name: TargetTable, schema: Any, where: str, properties: Mapping[str, str]) -> None:
        """Make the table, and its namespace if need be."""
        engine, catalog = self.pool.catalog()
        self._namespace(engine, catalog, name)
        builder = catalog.buildTable(_identifier(engine, name), schema).withLocation(where)
        builder.withProperties(java_map(engine, {**properties, OWNER: self.replicator})).create()

    def drop(self, table: IcebergTable) -> None:
        """Forget the table; its files are `dropped`'s.  TargetConflict where it is not as it was read."""
        if not self._change(table, "DELETE FROM iceberg_tables"):
            raise _overtaken(table)

    def rename(self, table: IcebergTable, new: TargetTable) -> None:
        """The files stay where they are.  TargetConflict where it is not as it was read, or another has the name."""
        engine, catalog = self.pool.catalog()
        self._namespace(engine, catalog, new)
        try:
            moved = self._change(
                table, "UPDATE iceberg_tables SET table_namespace = ?, table_name = ?", new.namespace, new.name
            )
        except Py4JJavaError as error:
            if self.load(new) is None:
                raise
            message = f"{table.name} cannot be renamed: {new} was created by another worker."
            raise TargetConflict(message, table=str(table.name)) from error
        if not moved:
            raise _overtaken(table)

    def _change(self, table: IcebergTable, statement: str, *values: str) -> bool:
        """The catalog's row of the table, if it is as it was read: False otherwise.

        The catalog's own `dropTable` and `renameTable` go by the name, whoever has it by then: a worker that stood
        still for longer than its lease would take another's table away.
        """
        where = "WHERE catalog_name = ? AND table_name = ? AND metadata_location = ?"
        seen = table.base.metadataFileLocation()
        with self._prepared(table.engine, f"{statement} {where}", *values, CATALOG, table.name.name, seen) as prepared:
            return bool(prepared.executeUpdate() == 1)

    @contextmanager
    def _prepared(self, engine: Engine, statement: str, *values: str) -> Iterator[Any]:
        """A statement for the catalog's database, on a connection of its own."""
        config = self.pool.config.catalog
        login = engine.jvm.java.util.Properties()
        for key, value in config.items():
            login.setProperty(key.removeprefix("jdbc."), value)
        connection = engine.jvm.java.sql.DriverManager.getConnection(config["uri"], login)
        try:
            prepared = connection.prepareStatement(statement)
            for place, value in enumerate(values, 1):
                prepared.setString(place, value)
            yield prepared
        finally:
            connection.close()

    def _point_at_newest(self, engine: Engine, name: TargetTable) -> bool:
        """The metadata file that the catalog names is gone, so the database is older than that: it names the newest one
        from now on.

        What the journal of that database knows of the table's rows is as old: it is to be read again. False where there
        is no metadata file any more: the catalog forgets the table, which is gone, and its rows with it.
        """
        row = "FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        place = (CATALOG, name.namespace, name.name)
        with self._prepared(engine, f"SELECT metadata_location {row}", *place) as prepared:
            found = prepared.executeQuery()
            old = str(found.getString(1)) if found.next() else ""
        new = newest_metadata(old)
        statement = "UPDATE iceberg_tables SET metadata_location = ?" if new else "DELETE FROM iceberg_tables"
        where = "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?"
        with self._prepared(engine, f"{statement} {where}", *([new] if new else []), *place, old) as prepared:
            prepared.executeUpdate()
        return bool(new)

    def _ours(self, table: IcebergTable) -> IcebergTable:
        owner = table.properties.get(OWNER)
        if owner == self.replicator:
            return table
        whose = "another replicator" if owner else "another writer"
        message = f"The target table {table.name} exists already and belongs to {whose}."
        remedy = "Set another target namespace for the replicator, or drop that table."
        raise ConfigurationError(message, table=str(table.name), remedy=remedy)

    @staticmethod
    def _described(engine: Engine, name: TargetTable, handle: Any) -> IcebergTable:
        base = handle.operations().current()
        snapshots = base.snapshots()
        count = int(snapshots.size())
        described = base
        if count > 2 * RECENT:
            build = engine.java("org.apache.iceberg.TableMetadata.buildFrom")(base)
            described = build.removeSnapshots(snapshots.subList(0, count - RECENT)).build()
            if described.currentSnapshot() is None:  # it was rolled back to an older one
                described = base
        return IcebergTable(name, engine, handle, base, _as_json(engine, described), count)

    @staticmethod
    def _namespace(engine: Engine, catalog: Any, name: TargetTable) -> None:
        namespace = _identifier(engine, name).namespace()
        if not catalog.namespaceExists(namespace):
            try:
                catalog.createNamespace(namespace)
            except Py4JJavaError:  # another worker was quicker
                if not catalog.namespaceExists(namespace):
                    raise


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
    table.handle.operations().commit(table.base, updated)


def with_staged(table: IcebergTable, fresh: IcebergTable, snapshot: Json) -> Any:
    """The metadata of `fresh` with its staged snapshot made current.

    TargetConflict where the table is not as `table` says.
    """
    if fresh.snapshot != table.snapshot or snapshot.get("parent-snapshot-id") != table.snapshot:
        message = f"Another worker committed to {table.name} in the meantime."
        raise TargetConflict(message, table=str(table.name))
    build = fresh.engine.java("org.apache.iceberg.TableMetadata.buildFrom")(fresh.base)
    return build.setBranchSnapshot(snapshot["snapshot-id"], "main").build()


@dataclass(frozen=True)
class PreparedSnapshot:
    """A snapshot that is written and not published: the metadata with it."""

    table: IcebergTable
    updated: Any

    @property
    def snapshot(self) -> int:
        """Its id."""
        return int(self.updated.currentSnapshot().snapshotId())

    def remove(self) -> None:
        """Its own manifests; what cannot be removed is an orphan, which maintenance removes."""
        io, snapshot = self.table.handle.io(), self.updated.currentSnapshot()
        with suppress(Py4JJavaError):
            gone = [str(m.path()) for m in snapshot.allManifests(io) if m.snapshotId() == snapshot.snapshotId()]
            for path in (*gone, snapshot.manifestListLocation()):
                io.deleteFile(path)


def prepared(table: IcebergTable, build: Callable[[Any], Any], said: Mapping[str, str]) -> PreparedSnapshot:
    """Write the snapshot of the update that `build` makes, on a transaction on the table as it was read.

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
    update = build(transaction)
    for key, value in said.items():
        update.set(key, value)
    update.commit()
    return PreparedSnapshot(table, transaction.table().operations().current())


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
