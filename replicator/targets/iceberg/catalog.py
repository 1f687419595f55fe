"""The Iceberg catalog through Iceberg's own Java API: the only place that speaks py4j, therefore the only one with Any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError

from replicator.errors import ConfigurationError, TargetConflict, TargetError
from replicator.merge.engine import Engine
from replicator.merge.session import CATALOG, SparkPool, java_map
from replicator.model.schema import SEQUENCE
from replicator.targets.base import TargetTable

OWNER = "tidemark.replicator"
STAGED = "wap.id"
Json = dict[str, Any]


@dataclass(frozen=True)
class LakeTable:
    """A table as its metadata file says it is; `metadata` has the form of the Iceberg specification."""

    name: TargetTable
    engine: Engine
    handle: Any
    metadata: Json

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
    def columns(self) -> list[tuple[str, str]]:
        """(name, Iceberg type) of the source's columns, without `_sequence_num`."""
        wanted = self.metadata["current-schema-id"]
        schema = next(s for s in self.metadata["schemas"] if s["schema-id"] == wanted)
        return [(f["name"], str(f["type"])) for f in schema["fields"] if f["name"] != SEQUENCE]

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
                message = f"Snapshots of {self.name} were expired that said how far it is."
                raise TargetError(
                    message, table=str(self.name), remedy="Resnapshot the table; let Tidemark expire snapshots."
                )
            yield by_id[at]
            at = by_id[at].get("parent-snapshot-id")

    def staged(self, token: str) -> Json | None:
        """The snapshot that was written under this token and not made current."""
        snapshots: list[Json] = self.metadata.get("snapshots", [])
        return next((s for s in reversed(snapshots) if s.get("summary", {}).get(STAGED) == token), None)

    def total(self, what: str) -> int:
        """`records`, `data-files`, `delete-files`, `files-size`, `position-deletes` of the present snapshot."""
        for snapshot in self.history():
            return int(snapshot["summary"].get(f"total-{what}", 0))
        return 0


class LakeCatalog:
    """Tables of one replicator in the catalog.  Thread-safe."""

    def __init__(self, pool: SparkPool, replicator: str) -> None:
        """`replicator` marks the tables as ours."""
        self.pool, self.replicator = pool, replicator

    def load(self, name: TargetTable) -> LakeTable | None:
        """The table as it is now; None where it does not exist.  ConfigurationError where it is not ours."""
        engine, catalog = self.pool.catalog()
        try:
            handle = catalog.loadTable(_identifier(engine, name))
        except Py4JJavaError as error:
            if _is(error, "NoSuchTableException", "NoSuchNamespaceException"):
                return None
            raise
        return self._ours(self._described(engine, name, handle))

    def require(self, name: TargetTable) -> LakeTable:
        """Like `load`; TargetError where it does not exist."""
        found = self.load(name)
        if found is None:
            message = f"The target table {name} does not exist."
            raise TargetError(message, table=str(name))
        return found

    def again(self, table: LakeTable) -> LakeTable:
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

    def drop(self, table: LakeTable) -> None:
        """Remove the table with its files.  TargetConflict where it is not as it was read."""
        gone = self._change(table, "DELETE FROM iceberg_tables")
        if not gone:
            raise _overtaken(table)
        table.engine.jvm.org.apache.iceberg.CatalogUtil.dropTableData(
            table.handle.io(), table.handle.operations().current()
        )

    def rename(self, table: LakeTable, new: TargetTable) -> None:
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
            message = f"{table.name} cannot be renamed: {new} was made by another worker."
            raise TargetConflict(message, table=str(table.name)) from error
        if not moved:
            raise _overtaken(table)

    def _change(self, table: LakeTable, statement: str, *values: str) -> bool:
        """The catalog's row of the table, if it is as it was read: False otherwise.

        The catalog's own `dropTable` and `renameTable` go by the name, whoever has it by then: a worker that stood still for
        longer than its lease would take another's table away.
        """
        config = self.pool.config.catalog
        java = table.engine.jvm.java
        login = java.util.Properties()
        for key, value in config.items():
            login.setProperty(key.removeprefix("jdbc."), value)
        connection = java.sql.DriverManager.getConnection(config["uri"], login)
        try:
            prepared = connection.prepareStatement(
                f"{statement} WHERE catalog_name = ? AND table_name = ? AND metadata_location = ?"
            )
            seen = table.handle.operations().current().metadataFileLocation()
            for place, value in enumerate((*values, CATALOG, table.name.name, seen), 1):
                prepared.setString(place, value)
            return bool(prepared.executeUpdate() == 1)
        finally:
            connection.close()

    def jvm(self) -> Any:
        """Java packages."""
        return self.pool.spark().jvm

    def _ours(self, table: LakeTable) -> LakeTable:
        owner = table.properties.get(OWNER)
        if owner == self.replicator:
            return table
        whose = "another replicator" if owner else "someone else"
        message = f"The target table {table.name} exists already and belongs to {whose}."
        remedy = "Give the replicator another target namespace, or drop that table yourself."
        raise ConfigurationError(message, table=str(table.name), remedy=remedy)

    @staticmethod
    def _described(engine: Engine, name: TargetTable, handle: Any) -> LakeTable:
        text = engine.jvm.org.apache.iceberg.TableMetadataParser.toJson(handle.operations().current())
        return LakeTable(name, engine, handle, json.loads(text))

    @staticmethod
    def _namespace(engine: Engine, catalog: Any, name: TargetTable) -> None:
        namespace = _namespace(engine, name.namespace)
        if not catalog.namespaceExists(namespace):
            try:
                catalog.createNamespace(namespace)
            except Py4JJavaError:  # another worker was quicker
                if not catalog.namespaceExists(namespace):
                    raise


def _overtaken(table: LakeTable) -> TargetConflict:
    message = f"{table.name} was changed or made anew by another worker."
    return TargetConflict(message, table=str(table.name))


def publish(table: LakeTable, fresh: LakeTable, snapshot: Json) -> None:
    """Make a staged snapshot current, if and only if the table is still as `table` says.

    One compare-and-set on the metadata file: no other commit can come in between, not even an empty one.  So the position
    that was read before the work still holds when the work becomes visible (invariants 3, 4, 5).
    """
    if fresh.snapshot != table.snapshot or snapshot.get("parent-snapshot-id") != table.snapshot:
        message = f"Another worker committed to {table.name} in the meantime."
        raise TargetConflict(message, table=str(table.name))
    operations = fresh.handle.operations()
    base = operations.current()
    build = fresh.engine.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    operations.commit(base, build.setBranchSnapshot(snapshot["snapshot-id"], "main").build())


def stage_nothing(table: LakeTable, summary: Mapping[str, str]) -> None:
    """A staged snapshot without a change of rows."""
    append = table.handle.newFastAppend().stageOnly()
    for key, value in summary.items():
        append.set(key, value)
    append.commit()


def _identifier(engine: Engine, name: TargetTable) -> Any:
    identifier = engine.jvm.org.apache.iceberg.catalog.TableIdentifier
    return identifier.of(_namespace(engine, name.namespace), name.name)


def _namespace(engine: Engine, name: str) -> Any:
    return engine.jvm.org.apache.iceberg.catalog.Namespace.of(java_strings(engine, [name]))


def java_strings(engine: Engine, values: Sequence[str]) -> Any:
    """A String[]."""
    array = engine.gateway.new_array(engine.jvm.java.lang.String, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array


def _is(error: Py4JJavaError, *classes: str) -> bool:
    return str(error.java_exception.getClass().getSimpleName()) in classes
