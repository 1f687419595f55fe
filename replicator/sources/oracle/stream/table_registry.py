"""The tables of the log: which are wanted, under which schema their statements are read, and what waits of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from replicator.errors import EventUndecodable, TableError
from replicator.model.change import Ddl, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.oracle.catalog.table_description import TableDescription
from replicator.sources.oracle.ddl.parser import is_recycled
from replicator.sources.oracle.offset import ScnOffset
from replicator.sources.oracle.rows.redo_rows import RedoLayout, TableRows
from replicator.sources.oracle.stream.redo_frame import Names
from replicator.sources.shared.date_policy import date_policy


class Present(NamedTuple):
    """What the server says now.  describe: a table; named: a table's name, by its object number; scn: its SCN."""

    describe: Callable[[TableId], TableDescription | TableError | None]
    named: Callable[[str], TableId | None]
    scn: Callable[[], int]


class Outlet(Protocol):
    """The assembler, as its parts see it."""

    @property
    def boundary(self) -> ScnOffset:
        """Reading can resume here and miss nothing."""

    def flush(self) -> None:
        """Hand on all rows."""

    def emit(
        self,
        operation: Ddl,
        table: TableId,
        schema: TableSchema | None = None,
        *,
        new: TableId | None = None,
        renamed: Mapping[str, str] | None = None,
        reload: bool = False,
        statement: str = "",
    ) -> None:
        """A SchemaChange, behind all rows so far."""

    def failed(self, message: TableFailed) -> None:
        """Hand it on."""


class LogTables:
    """Part of the assembler.

    known: schemas that hold at this place of the log.
    lost: tables with unreadable rows, because their definition has changed since, and the SCN at which that was seen.
    They are resnapshotted; unreadable rows up to that SCN are ignored, as the statement that changed the definition
    lies before it.
    was: former names, of tables that are not reported yet under their new ones.
    """

    def __init__(
        self, outlet: Outlet, tables: TableSet, schemas: Mapping[TableId, TableSchema], options: ReadOptions,
        present: Present,
    ) -> None:  # fmt: skip
        self._outlet, self._tables, self._options = outlet, tables, options
        self.describe, self._named, self._now = present
        self.known = dict(schemas)
        self.lost: dict[TableId, int] = {}
        self.was: dict[TableId, TableId] = {}
        self._halted = {identity: table for table, identity in tables.halted.items() if identity}
        self._described_at: dict[TableId, int] = {}
        self.gathered: dict[TableId, TableRows] = {}
        self.described: dict[TableId, TableDescription] = {}  # of the gathered ones, under their present names
        self._targets: dict[tuple[Names, str], TableRows | None] = {}
        self._holders: dict[Names, TableId | None] = {}
        self._failed: set[TableId] = set()
        # what was known, what the catalog had instead, and an SCN at which it still had
        self._doubts: dict[TableId, tuple[TableSchema | None, TableSchema, int]] = {}

    def wants(self, table: TableId) -> bool:
        """True for a table of the selection that has not failed."""
        return table in self._tables and table not in self._failed

    def selects(self, table: TableId) -> bool:
        """True for one that failed, too."""
        return table in self._tables

    def failed(self, table: TableId) -> bool:
        """Was the table reported as failed?"""
        return table in self._failed

    def fail(self, table: TableId, error: TableError) -> None:
        """Skip the table from here on (invariant 7)."""
        self._outlet.flush()
        self.skip(table, error)

    def skip(self, table: TableId, error: TableError) -> None:
        """As `fail`, where no rows have to be handed on before."""
        if table in self._failed:
            return
        self._failed.add(table)
        self.forget(table)
        error.table = error.table or str(table)
        if str(table) not in error.message:
            error.message = f"{table}: {error.message}"
        self._outlet.failed(TableFailed(table, error, self._outlet.boundary))

    def revive(self, table: TableId) -> None:
        """A table of that name is made again."""
        self._failed.discard(table)
        self.lost.pop(table, None)

    def forget(self, table: TableId) -> None:
        """Look at its definition again before its next row; rows that were gathered are handed on before."""
        self.gathered.pop(table, None)
        self._targets.clear()
        self._holders.clear()

    def target(self, names: Names, number: str) -> TableRows | None:
        """Where rows of this name and object number are gathered; None: they are not wanted."""
        if (names, number) not in self._targets:
            self._targets[names, number] = self._found(TableId(*names), number)
        return self._targets[names, number]

    def learn(self, table: TableId, schema: TableSchema) -> None:
        """From the catalog, which may be ahead of this place of the log."""
        failed = self._halted.get(schema.identity, table)
        if failed != table:
            self.carry(failed, table)
        self.known[table] = self.taken(schema)
        self._described_at[table] = self._now()

    def carry(self, old: TableId, new: TableId) -> None:
        """What is left out of the table is left out of it under its new name, too."""
        if self.selects(new):
            self._tables.carry(old, new)
            self.was[new] = old

    def taken(self, schema: TableSchema) -> TableSchema:
        """Less what is left out under its name."""
        return schema.without(self._tables.columns_left_out(schema.table))

    def renamed(self, old: TableId, new: TableId) -> TableSchema:
        """Known by its new name from here on; its schema."""
        self.was.pop(new, None)
        schema = self.known[new] = self.taken(replace(self.known.pop(old), table=new))
        self._described_at[new] = self._described_at.pop(old, -1)
        return schema

    def older(self, table: TableId, scn: int) -> bool:
        """May a row of this SCN be of an earlier definition than the one that was read from the catalog meanwhile?

        LogMiner may have returned it before the statement between the two definitions was executed.
        """
        return scn <= self._described_at.get(table, -1)

    def of_object(self, number: str) -> TableId | None:
        """The table that has this number (`TableSchema.identity`) at this place of the log."""
        return next((table for table, schema in self.known.items() if number and schema.identity == number), None)

    def holder(self, names: Names) -> TableId | None:
        """The table that rows under this name belong to at this place of the log, as far as the catalog knows."""
        if names not in self._holders:
            table = TableId(*names)
            described = self.describe(table)
            was = self.of_object(described.schema.identity) if isinstance(described, TableDescription) else None
            self._holders[names] = was or (table if table in self.known and described is None else None)
        return self._holders[names]

    def part_identities(self) -> None:
        """Of several tables with one number, all but one are described as of a later place than this one, where names
        were given to others.  Which, the log tells: until then they have no number, and are read again.
        """
        counts = Counter(schema.identity for schema in self.known.values() if schema.identity)
        for table, schema in list(self.known.items()):
            if counts[schema.identity] > 1:
                self._without_number(table)

    def _without_number(self, table: TableId) -> None:
        self.known[table] = replace(self.known[table], identity="")
        self._outlet.emit(Ddl.ALTER_TABLE, table, self.known[table], reload=True)

    def doubt(self, table: TableId) -> bool:
        """Rows that were read, or the catalog, show another definition than what is known here.

        Returns False while it is not clear which is right.  Usually a later statement explains the difference.  But
        what is known may be wrong: at the start a table is described as the catalog has it.  Renames that are already
        in the catalog but still ahead in the log then count twice.  So the catalog is asked.  Once the log has reached
        the SCN of that answer without reporting another definition, the answer is right, and what is known is replaced.
        """
        known = self.known.get(table)
        before, described, scn = self._doubts.get(table, (None, None, 0))
        if described is None or before is not known:
            self._doubts.pop(table, None)
            found = self.describe(table)
            if not isinstance(found, TableDescription) or agree(found.schema, known):
                return True
            self._doubts[table] = known, found.schema, self._now()
            return False
        if self.wants(table) and not self._outlet.boundary.covers(ScnOffset(scn)):
            return False
        if self.wants(table):
            self._correct(described)
        return True

    def _correct(self, right: TableSchema) -> None:
        del self._doubts[right.table]
        self._outlet.flush()
        self.forget(right.table)
        other = self.of_object(right.identity)
        if other is not None and other != right.table:
            self.carry(other, right.table)
            self._without_number(other)
        operation = Ddl.ALTER_TABLE if right.table in self.known else Ddl.CREATE_TABLE
        self.learn(right.table, right)
        self._outlet.emit(operation, right.table, self.known[right.table], reload=True)

    def _found(self, table: TableId, number: str) -> TableRows | None:
        """The online catalog names a table as it was called when LogMiner came by: at this place of the log it may have
        another name, or another table this one; and in the catalog, too, by now.

        number: the row's, which is the table's unless it has partitions.
        """
        if table.database not in {one.database for one in self.known} and not self.selects(table):
            return None
        described = self.describe(table)
        holder = self.of_object(number) or (table if described is None and table in self.known else None)
        if holder is not None and self._passed_over(holder, table, described):
            return None
        if isinstance(described, TableError):
            if self.wants(table) and table in self.known:
                self.fail(table, described)
            return self.arrived(table, described) if self.wants(table) else None
        if described is None:
            return None
        was = self.of_object(described.schema.identity)
        if was is not None:
            return self._gathering(was, described) if self.wants(was) else None
        return self.arrived(table, described) if self.wants(table) and table not in self.known else None

    def _passed_over(self, holder: TableId, name: TableId, described: TableDescription | TableError | None) -> bool:
        """Has the holder of rows lost their name since LogMiner came by?  Nothing says how they are to be read then.

        One that has another name is read again; of one that was dropped the log will say so.  described: what has the
        name now.
        """
        identity = self.known[holder].identity
        if isinstance(described, TableDescription) and described.schema.identity == identity:
            return False
        present = self._named(identity) if identity else None
        if present == name and isinstance(described, TableError):
            return False  # it has its name, and is refused
        if present is not None and not is_recycled(present) and self.wants(holder) and holder not in self.lost:
            self._lose(holder)
            self._outlet.emit(Ddl.ALTER_TABLE, holder, self.known[holder], reload=True)
        return True

    def arrived(self, table: TableId, described: TableDescription | TableError | None) -> TableRows | None:
        """Of a wanted table that was not known: it is read whole."""
        if isinstance(described, TableError):
            self.fail(table, described)
            return None
        if described is None or self.of_object(described.schema.identity) not in {None, table}:
            return None  # another table has its name by now: a later statement will tell
        known = table in self.known
        self.learn(table, described.schema)
        self._outlet.emit(Ddl.ALTER_TABLE if known else Ddl.CREATE_TABLE, table, self.known[table], reload=True)
        return self._gathering(table, described)

    def read_again(self, table: TableId) -> None:
        """Large objects of rows of it cannot be had any more, under a definition that holds: of no later ones."""
        if self.wants(table) and table in self.known:
            self._outlet.emit(Ddl.ALTER_TABLE, table, self.known[table], reload=True)

    def reload(self, table: TableId, scn: int) -> None:
        """A row of it, of this SCN, cannot be read: as the catalog has it now, it is read again.

        No statement explains a row that comes later than that: the table fails.
        """
        if scn <= self.lost.get(table, -1):
            return
        if table in self.lost:
            message = f"LogMiner cannot show a change of {table}, and no statement in the log explains why."
            self.fail(table, EventUndecodable(message, table=str(table)))
            return
        described = self.describe(table)
        self._lose(table)
        if isinstance(described, TableError):
            self.skip(table, described)
            return
        # Else it is gone by now, or has another name: the log will say so, and the load goes on under that.
        if described is not None and not described.schema.is_another(self.known[table]):
            self.learn(table, described.schema)
        self._outlet.emit(Ddl.ALTER_TABLE, table, self.known[table], reload=True)

    def _lose(self, table: TableId) -> None:
        self.lost[table] = self._now()  # behind the answer: a row between the two may be of a definition before it
        self._outlet.flush()
        self.forget(table)

    def changed_since(self, rows: TableRows) -> bool:
        """Does the catalog say something else of a table than when its rows were begun to be gathered?"""
        found = self.describe(rows.layout.schema.table)
        return not isinstance(found, TableDescription) or found.names != rows.layout.names

    def _gathering(self, table: TableId, described: TableDescription) -> TableRows | None:
        """described: it, as the catalog has it, perhaps under another name."""
        found = self.gathered.get(table)
        if found is not None:
            return found
        layout = layout_for(self.known[table], described)
        if layout is None and table not in self.lost:
            self.reload(table, 0)
            layout = layout_for(self.known[table], described) if self.wants(table) else None
        if layout is None:
            return None
        self._outlet.flush()
        options = self._options
        rows = TableRows(layout, date_policy(options), keep_undecodable=options.keep_undecodable)
        self.gathered[table], self.described[table] = rows, described
        return rows


def agree(shown: TableSchema, known: TableSchema | None) -> bool:
    """Equal, and of the same table."""
    return known is not None and shown == known and shown.identity == known.identity


def layout_for(schema: TableSchema, described: TableDescription) -> RedoLayout | None:
    """How statements of a table are read under a schema; None where it has columns that the table does not."""
    present = dict(
        zip(described.schema.names, zip(described.schema.columns, described.value_types, strict=True), strict=True)
    )
    types = []
    for column in schema.columns:
        if column.name not in present or present[column.name][0].type != column.type:
            return None
        types.append(present[column.name][1])
    return RedoLayout(replace(schema), tuple(types), described.names)
