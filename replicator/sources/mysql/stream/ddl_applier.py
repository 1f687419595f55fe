"""DDL in the log → SchemaChange messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replicator.errors import SelectionDoesNotFit, TableError, UnsupportedDdl, UnsupportedEngine
from replicator.model.change import Ddl, SchemaChange
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.mysql.catalog.storage_engines import StorageOptions, in_union, refusal, refused
from replicator.sources.mysql.ddl import parser
from replicator.sources.mysql.ddl.alter_clauses import Clause, ClauseKind
from replicator.sources.mysql.ddl.alter_table import alter, recased
from replicator.sources.mysql.names import columns_left_out, lowered
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.stream.assembly import Assembly
from replicator.sources.mysql.stream.schema_tracker import Resolved
from replicator.sources.mysql.stream.table_registry import LogTables
from replicator.sources.mysql.wire.events import BinlogEvent
from replicator.sources.shared.descriptions import check_left_out

_STATEMENT_SHOWN = 200
_RENAMING = (ClauseKind.RENAME, ClauseKind.MODIFY)  # MODIFY in another case is a new name, too
_BRINGING = (ClauseKind.ROWS, ClauseKind.TAKEN)  # rows that the log did not show
Pair = tuple[TableId, TableId]


class DdlEffects:
    """Part of the assembler: what statements do to tables and schemas."""

    def __init__(self, assembly: Assembly, registry: LogTables, tables: TableSet) -> None:
        self._assembly, self._registry, self._tables = assembly, registry, tables
        self._event: BinlogEvent | None = None
        self._text = ""
        self._was: dict[TableId, TableId] = {}  # former names, of tables that are not reported yet

    @property
    def _known(self) -> dict[TableId, TableSchema]:
        return self._assembly.schemas.current

    def apply(self, statement: parser.Statement, event: BinlogEvent, text: str) -> None:
        """One statement; a table that cannot go on fails, the others do not notice."""
        self._event, self._text = event, text
        match statement:
            case parser.CreateTable(table, options=options):
                self._in_union(table, options)
                self._create(statement)
            case parser.DropTables(tables):
                for table in tables:
                    self._drop(table)
            case parser.TruncateTable(table):
                self._truncate(table)
            case parser.AlterTable(table, clauses, options):
                self._in_union(table, options)
                self._alter(table, clauses, options.engine)
            case parser.RenameTables(pairs):
                self._rename([pair for pair in pairs if not self._stayed(pair, pairs)])
            case parser.CreateDatabase() | parser.DropDatabase():
                self._database(statement)
            case parser.UnseenRows(tables):
                for table in sorted(self._known.keys() if tables is None else tables):
                    self._look_again(table)
            case parser.Unparsable(_, tables):
                for table in tables & self._known.keys():
                    self._fail(table)

    def unannounced(self, resolved: Resolved, event: BinlogEvent) -> None:
        """A TABLE_MAP shows a schema that no statement explained."""
        self._event, self._text = event, ""
        operation = Ddl.CREATE_TABLE if resolved.known is None else Ddl.ALTER_TABLE
        renamed = recased(resolved.known, resolved.schema) if resolved.known else None
        self._emit(operation, resolved.schema.table, resolved.schema, reload=resolved.reload, renamed=renamed)

    def reload(self, table: TableId, event: BinlogEvent, text: str) -> None:
        """Rows that were handed on did not happen: the table must be read again."""
        self._event, self._text = event, text
        self._emit(Ddl.ALTER_TABLE, table, self._known.get(table), reload=True)

    def _emit(
        self,
        operation: Ddl,
        table: TableId,
        schema: TableSchema | None = None,
        *,
        reload: bool = False,
        new: TableId | None = None,
        renamed: dict[str, str] | None = None,
    ) -> None:
        assembly, event = self._assembly, self._event
        assert event is not None
        was = self._was.pop(table, None) if operation in {Ddl.CREATE_TABLE, Ddl.ALTER_TABLE} else None
        assembly.flush()
        assembly.out.append(
            SchemaChange(
                ordinal=assembly.pending.take_ordinal(),
                operation=operation,
                table=table,
                offset=BinlogOffset(event.file, event.start, str(assembly.gtid)),
                commit_ts=assembly.commit_ts,
                schema=schema,
                new_table=new,
                renamed_columns=renamed or {},
                reload=reload,
                statement=self._text,
                was=was,
            )
        )

    def _fail(self, table: TableId) -> None:
        shown = self._text if len(self._text) <= _STATEMENT_SHOWN else f"{self._text[:_STATEMENT_SHOWN]}…"
        self._registry.fail(table, UnsupportedDdl(f"{table} is named in a statement that cannot be parsed: {shown}"))

    def _in_union(self, merge: TableId, options: StorageOptions) -> None:
        """Rows of these tables may change under another name from here on."""
        for table in options.union:
            if table in self._known and self._registry.wants(table):
                self._registry.fail(table, in_union(table, merge))

    def _create(self, statement: parser.CreateTable) -> None:
        table, like = statement.table, statement.like
        if table not in self._tables:
            return
        if table in self._known:
            if not statement.replace:
                return  # IF NOT EXISTS
            self._drop(table)
        unfit = refused(table, statement.options)
        if statement.filled and unfit is None:
            self._arrive(table)
            return
        self._registry.revive(table)
        schemas = self._assembly.schemas
        schemas.empty.add(table)
        schemas.forget(table)
        if unfit is not None:
            self._registry.fail(table, unfit)
            return
        left_out = self._tables.columns_left_out
        wants = self._registry.wants
        certain = like in schemas.certain or not schemas.asks
        if certain and like in self._known and wants(like) and left_out(like) == left_out(table):
            self._known[table] = replace(self._known[like], table=table)  # exact, even if the catalog has changed
            schemas.certain.add(table)
            self._emit(Ddl.CREATE_TABLE, table, self._known[table])
            return
        try:
            present = schemas.present(table)
        except TableError as error:
            self._registry.fail(table, error)
            return
        if present is not None:  # else it is gone again, or its rows come first: a TABLE_MAP will tell
            self._known[table] = present.schema
            self._emit(Ddl.CREATE_TABLE, table, present.schema)

    def _drop(self, table: TableId) -> None:
        if table in self._known:
            del self._known[table]
            self._emit(Ddl.DROP_TABLE, table)
        self._assembly.schemas.empty.discard(table)
        self._assembly.schemas.forget(table)
        self._registry.revive(table)

    def _truncate(self, table: TableId) -> None:
        if self._registry.wants(table) and table in self._known:
            self._emit(Ddl.TRUNCATE_TABLE, table)
            self._assembly.schemas.empty.add(table)

    def _alter(self, table: TableId, clauses: Sequence[Clause], engine: str = "") -> None:
        target = next((c.table for c in clauses if c.kind is ClauseKind.RENAME_TABLE and c.table != table), None)
        for clause in clauses:
            if clause.table and clause.kind is ClauseKind.ROWS and clause.table in self._tables:
                self._arrive(clause.table)
            elif clause.table and clause.kind is ClauseKind.TAKEN:
                self._drop(clause.table)
        if target is not None and target in self._tables:
            self._tables.carry(table, target)
        if self._registry.wants(table) and table in self._known:
            self._alter_known(table, clauses, described=target or table)
        if target:
            self._rename([(table, target)])
        elif table in self._assembly.schemas.overtaken:
            self._known.pop(table, None)
            self._arrive(table)
        here = target or table
        error = refusal(here, engine)
        if error is not None and here in self._known and self._registry.wants(here):
            self._registry.fail(here, error)  # even if it has another engine by now: rows may be lost or changed

    def _alter_known(self, table: TableId, clauses: Sequence[Clause], *, described: TableId) -> None:
        schemas, old = self._assembly.schemas, self._known[table]
        renamed = {lowered(c.column): lowered(c.to) for c in clauses if c.kind in _RENAMING and c.to}
        left_out = columns_left_out(self._tables, table)
        try:
            check_left_out(table, left_out & renamed.keys(), renamed.values())
        except SelectionDoesNotFit as error:
            self._registry.fail(table, error)
            return
        if any(clause.kind in _BRINGING for clause in clauses):
            schemas.empty.discard(table)
        try:
            present = schemas.present(described)
        except TableError as error:
            self._registry.fail(table, error)
            return
        result = alter(old, clauses, present, schemas.charsets(table), schemas.assumed.get(table, {}))
        schemas.assumed[table] = result.assumed
        schema = replace(result.schema, table=table)
        reload = result.reload and table not in schemas.empty
        added = {c.to for c in clauses if c.kind is ClauseKind.ADD and not c.fills} - set(schema.names)
        schemas.announced.setdefault(table, set()).update(added)
        if any(clause.kind is not ClauseKind.RENAME_TABLE for clause in clauses):
            schemas.certain.discard(table)
        self._registry.forget_targets()
        if schema != old or reload:
            self._known[table] = schema
            self._emit(Ddl.ALTER_TABLE, table, schema, reload=reload, renamed=result.renamed)

    def _database(self, statement: parser.CreateDatabase | parser.DropDatabase) -> None:
        name, dropped = statement.name, isinstance(statement, parser.DropDatabase)
        if not isinstance(statement, parser.CreateDatabase) or statement.replace:
            for table in sorted(table for table in self._known if table.database == name):
                self._drop(table)
        if name in self._tables.databases:
            self._emit(Ddl.DROP_DATABASE if dropped else Ddl.CREATE_DATABASE, TableId(name, ""))

    def _stayed(self, pair: Pair, pairs: Sequence[Pair]) -> bool:
        """MariaDB logs the RENAME TABLE of a temporary table as if it were of the one that it hides, which is read
        again then.

        That one still has its name, and none has the new one: or both are so by now for other reasons.  Or it is
        renamed next.
        """
        (old, new), schemas = pair, self._assembly.schemas
        if self._assembly.mariadb and _again(old, pairs[pairs.index(pair) + 1 :]):
            return True
        named = [name for one in pairs for name in one]
        if not self._assembly.mariadb or old not in self._known or named.count(old) > 1 or named.count(new) > 1:
            return False
        try:
            stayed = schemas.present(new) is None and schemas.present(old) is not None
        except TableError:
            return False
        if stayed:
            self._look_again(old)
        return stayed

    def _look_again(self, table: TableId) -> None:
        """A statement may have changed its rows, its columns or its name: what the catalog has is read again."""
        schemas = self._assembly.schemas
        if not self._registry.wants(table):
            return
        try:
            gone = schemas.asks and schemas.present(table) is None
        except TableError as error:
            if table in self._known:
                self._registry.fail(table, error)
            return
        if gone:
            self._drop(table)
        elif schemas.asks or table in self._known:
            self._arrive(table)

    def _rename(self, pairs: Sequence[Pair]) -> None:
        names = {name for pair in pairs for name in pair}
        if not any(name in self._tables for name in names):
            return
        self._registry.forget_targets()
        self._assembly.schemas.renamed(pairs)
        if all(name in self._tables for name in names) and all(self._registry.wants(old) for old, _ in pairs):
            for place, (old, new) in enumerate(pairs, 1):
                self._move(old, new, passing=_again(new, pairs[place:]))
            return
        self._rename_across(pairs)

    def _taken(self, schema: TableSchema, name: TableId) -> TableSchema:
        """Less what is left out of a table of this name."""
        left_out = columns_left_out(self._tables, name)
        return schema.without([column for column in schema.names if lowered(column) in left_out])

    def _move(self, old: TableId, new: TableId, *, passing: bool = False) -> None:
        """`passing`: the same statement renames it further."""
        schemas = self._assembly.schemas
        schema = self._known.pop(old, None)
        if schema is None:
            self._arrive(new, was=old)
            return
        self._tables.carry(old, new)
        self._registry.revive(new)
        kept = self._taken(schema, new)
        self._known[new] = replace(kept, table=new)
        if old in schemas.empty:
            schemas.empty.discard(old)
            schemas.empty.add(new)
        self._emit(Ddl.RENAME_TABLE, old, self._known[new], new=new, reload=kept is not schema)
        present = None
        try:
            present = schemas.present(new)
        except (UnsupportedEngine, UnsupportedDdl) as error:  # a MERGE table may have had this name in its UNION
            self._registry.fail(new, error)
            return
        except TableError:
            pass
        # Under its old name the catalog may have shown another table already, and no row may follow that would tell.
        doubtful = schemas.asks and not passing and new not in schemas.certain
        if doubtful and not (present is not None and _alike(present.schema, self._known[new])):
            self._emit(Ddl.ALTER_TABLE, new, self._known[new], reload=True)

    def _rename_across(self, pairs: Sequence[Pair]) -> None:
        """Some names are outside the selection: what each selected name holds at the end decides."""
        holds: dict[TableId, TableId | None] = {}
        for old, new in pairs:
            holds[new] = holds.get(old, old)
            holds[old] = None
        before = dict(self._known)
        sources = {n: source for n, source in holds.items() if n in self._tables and source is not None and source != n}
        for name, source in sources.items():
            free = source in before and name not in before and holds.get(source) is None
            if free and self._registry.wants(source):
                self._move(source, name)
        for name, left in holds.items():
            if left is None and name in self._known:
                self._drop(name)
        for name, source in sources.items():
            if not (source in before and name not in before and name in self._known):
                self._arrive(name, before.get(source), was=source)

    def _arrive(self, table: TableId, moved: TableSchema | None = None, was: TableId | None = None) -> None:
        """Rows that the log did not show are under this name now.  was: the name that the table had."""
        schemas = self._assembly.schemas
        if was is not None:
            self._tables.carry(was, table)
            self._was[table] = was
        existed = table in self._known and self._registry.wants(table)
        schemas.empty.discard(table)
        schemas.forget(table)
        self._registry.revive(table)
        try:
            present = schemas.present(table)
        except TableError as error:
            self._registry.fail(table, error)
            return
        schema = present.schema if present else replace(moved, table=table) if moved else self._known.get(table)
        if schema is None:
            return  # gone again; should rows of it come, its TABLE_MAP asks for the reload
        self._known[table] = schema = self._taken(schema, table)
        self._emit(Ddl.ALTER_TABLE if existed else Ddl.CREATE_TABLE, table, schema, reload=True)


def _alike(one: TableSchema, other: TableSchema) -> bool:
    first, second = ([(column.name, column.type) for column in schema.columns] for schema in (one, other))
    return first == second and one.key == other.key


def _again(name: TableId, pairs: Sequence[Pair]) -> bool:
    """Is another table of this name renamed, before any gets it?"""
    return next((old == name for old, new in pairs if name in (old, new)), False)
