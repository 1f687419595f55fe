"""What capture knows of every table it follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from replicator.engine.capture.journal_entry import JournalEntryBuilder
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.state.journal import CapturePlan, SchemaVersion


class TableRegistry:
    """Present schema versions, and the tables whose changes are passed over."""

    def __init__(self, plan: CapturePlan, entry: JournalEntryBuilder, late: Collection[TableId] = ()) -> None:
        """New versions are written to `entry`.  `late`: tables of the plan of which the log has nothing to say yet."""
        self._entry = entry
        self._versions: dict[TableId, SchemaVersion | None] = {
            t.table: t.schema for t in plan.tracked if t.table not in late
        }
        self._gone = plan.gone
        self._late = frozenset(late)
        self._ignored: set[TableId] = set(late)
        self._failed: set[TableId] = set()
        self._dead_letters = Counter({t.table: t.dead_letters for t in plan.tracked})

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
        last = present.version if present else self._gone.get(table, 0)
        version = SchemaVersion(last + 1, schema, self._entry.next_sequence)
        self._versions[table] = version
        self._entry.schemas.append(version)
        return version.version

    def restate(self, table: TableId, schema: TableSchema) -> None:
        """The present version goes on; the source tells its table by another identity, which a restart must know."""
        present = self._versions[table]
        if present is None or present.schema.same_as(schema):
            return
        restated = SchemaVersion(present.version, schema, self._entry.next_sequence, known=True)
        self._versions[table] = restated
        self._entry.schemas.append(restated)

    def ignored(self, table: TableId) -> bool:
        return table in self._ignored

    def late(self, table: TableId) -> bool:
        """Not even its being created counts."""
        return table in self._late

    def ignore(self, table: TableId) -> None:
        """It has failed: pass its changes over until the next plan."""
        self._ignored.add(table)
        self._failed.add(table)

    def failed(self, table: TableId) -> bool:
        """Under this plan, and it is still there."""
        return table in self._failed

    def forget(self, table: TableId) -> None:
        """Dropped; if it comes again it is a new table whose versions go on."""
        self._ignored.add(table)
        self._failed.discard(table)

    def revive(self, table: TableId) -> None:
        """Created (again)."""
        self._ignored.discard(table)
        self._failed.discard(table)
        self._versions.setdefault(table, None)

    def rename(self, old: TableId, new: TableId) -> None:
        """The table keeps its versions under its new name."""
        self._versions[new] = self._versions.pop(old, None)
        self._ignored.discard(new)
        self._dead_letters[new] = self._dead_letters.pop(old, 0)

    def count_dead_letters(self, table: TableId, rows: int) -> int:
        """Add `rows` to the table's dead-letter rows; return their number."""
        self._dead_letters[table] += rows
        return self._dead_letters[table]
