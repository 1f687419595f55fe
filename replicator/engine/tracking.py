"""What capture knows of every table it follows."""

from __future__ import annotations

from replicator.engine.entry import EntryBuilder
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.state.journal import CapturePlan, SchemaVersion


class Tracking:
    """Present schema versions, and the tables whose changes are passed over."""

    def __init__(self, plan: CapturePlan, entry: EntryBuilder) -> None:
        """New versions are written to `entry`."""
        self._entry = entry
        self._versions: dict[TableId, SchemaVersion | None] = {t.table: t.schema for t in plan.tracked}
        self._ignored: set[TableId] = set()

    def schemas(self) -> dict[TableId, TableSchema]:
        """The schemas that hold at the checkpoint."""
        return {table: version.schema for table, version in self._versions.items() if version is not None}

    def follows(self, table: TableId) -> bool:
        """True for a table of the plan, or one that came by DDL."""
        return table in self._versions and table not in self._ignored

    def knows(self, table: TableId) -> bool:
        return table in self._versions

    def schema(self, table: TableId) -> TableSchema | None:
        version = self._versions.get(table)
        return version.schema if version else None

    def version_of(self, table: TableId, schema: TableSchema) -> int | None:
        """The present version if `schema` is its schema (the first one is made here); None where it is another."""
        present = self._versions.get(table)
        if present is None and table in self._versions:
            return self.new_version(table, schema)
        return present.version if present is not None and present.schema == schema else None

    def new_version(self, table: TableId, schema: TableSchema) -> int:
        """`schema` holds from here on."""
        present = self._versions.get(table)
        version = SchemaVersion((present.version if present else 0) + 1, schema, self._entry.next_sequence)
        self._versions[table] = version
        self._entry.schemas.append(version)
        return version.version

    def ignored(self, table: TableId) -> bool:
        return table in self._ignored

    def ignore(self, table: TableId) -> None:
        """Pass its changes over until the next plan."""
        self._ignored.add(table)

    def forget(self, table: TableId) -> None:
        """Dropped; if it comes again it is a new table whose versions go on."""
        self._ignored.add(table)

    def revive(self, table: TableId) -> None:
        """Created (again)."""
        self._ignored.discard(table)
        self._versions.setdefault(table, None)

    def rename(self, old: TableId, new: TableId) -> None:
        """The table keeps its versions under its new name."""
        self._versions[new] = self._versions.pop(old, None)
        self._ignored.discard(new)
