"""Which table a relation of the log is, under which schema its rows are, and what has become of tables: DDL is not in
the log.

Two things tell of it.  A relation message stands before the first row under a new definition, with names and types,
without nullability, defaults or the key.  An observation of the catalog (`stream.catalog_observer`) has all that, and
stands for the place that the log had reached when it was taken.  What neither explains is not guessed at: the table is
read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from replicator.errors import TableError, UnsupportedDdl
from replicator.model.change import Ddl
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import widens
from replicator.sources.postgres.catalog.attributes import (
    Attribute,
    ColumnFingerprint,
    ReplicaIdentity,
    TableDescription,
    with_publication_of,
)
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.catalog.replica_identity import NoIdentity
from replicator.sources.postgres.catalog.table_description import PartitionOfSelected, table_of
from replicator.sources.postgres.catalog.type_resolution import Types
from replicator.sources.postgres.ddl.event_trigger import LoggedDefinition
from replicator.sources.postgres.rows.row_messages import TupleLayout
from replicator.sources.postgres.types import column_of
from replicator.sources.postgres.wire.messages import Relation, RelationColumn
from replicator.sources.shared.descriptions import check_left_out
from replicator.sources.shared.table_change import TableChange

Described = TableDescription | TableError


Outcome = TableChange | tuple[TableId, TableError]


class Relations:
    """The schemas that hold at the present place of the log.

    `layouts`: of every relation met; None for one not wanted.
    """

    def __init__(
        self, catalog: PostgresCatalog, tables: TableSet, schemas: Mapping[TableId, TableSchema], zero_dates: str
    ) -> None:
        """`schemas` are those that held where reading begins."""
        self._catalog, self._tables, self._zero_dates = catalog, tables, zero_dates
        self._known = dict(schemas)
        self._names = {
            known.oid: table for table, schema in schemas.items() if (known := ColumnFingerprint.parse(schema.identity))
        }
        self._was = {  # the last names of relations that are not followed, or were reported as gone
            failed.oid: table
            for table, identity in tables.halted.items()
            if (failed := ColumnFingerprint.parse(identity))
        }
        self._refused: dict[int, tuple[TableId, ColumnFingerprint]] = {}
        self.layouts: dict[int, TupleLayout | None] = {}

    def differs(self, oid: int, table: TableId, seen: ColumnFingerprint) -> bool:
        """Is a table of the catalog another than the one that is known here (or known to be refused), or not known?"""
        if self._refused.get(oid) == (table, seen):
            return False
        return self._names.get(oid) != table or self._known[table].identity != str(seen)

    def refuse(self, refused: Mapping[int, ColumnFingerprint], present: Mapping[int, TableId]) -> None:
        """Remember refused tables, which were reported: they are not described again while they stay unchanged."""
        self._refused |= {oid: (present[oid], seen) for oid, seen in refused.items()}

    def is_known(self, schema: TableSchema) -> bool:
        """Is this the table that is known here, as the catalog has it, however its definition is read?"""
        known = self._known.get(schema.table)
        before, now = (
            ColumnFingerprint.parse(known.identity) if known else None,
            ColumnFingerprint.parse(schema.identity),
        )
        return before is not None and now is not None and before.same_table(now)

    def published_as(self, shown: TableSchema) -> bool:
        """Is the table published as it was when these rows of it were read?

        It is so known from here on, where it was not.
        """
        known = self._known.get(shown.table)
        if known is None:
            return True
        known = self._known[shown.table] = with_publication_of(shown, known)
        before, now = ColumnFingerprint.parse(known.identity), ColumnFingerprint.parse(shown.identity)
        return before is None or now is None or not now.republished(before)

    def publication_of(self, oid: int) -> str:
        """How the table is known to be published."""
        table = self._names.get(oid)
        known = ColumnFingerprint.parse(self._known[table].identity) if table else None
        return known.published if known else ""

    def fail(self, table: TableId) -> None:
        """Its rows are passed over from here on."""
        for oid, layout in self.layouts.items():
            if layout is not None and layout.schema.table == table:
                self.layouts[oid] = None

    def renamed(self, oid: int) -> TupleLayout | None:
        """The layout under the name that the relation has by now; None where it is the one it had."""
        layout, table = self.layouts.get(oid), self._names.get(oid)
        if layout is None or table is None or layout.schema.table == table:
            return None
        left_out = self._tables.columns_left_out(table)
        kept = [place for place, name in enumerate(layout.schema.names) if name not in left_out]
        self.layouts[oid] = replace(
            layout,
            schema=replace(layout.schema.without(left_out), table=table),
            attributes=tuple(layout.attributes[place] for place in kept),
            places=tuple(layout.places[place] for place in kept),
        )
        return self.layouts[oid]

    @property
    def oids(self) -> list[int]:
        """Of the tables that are followed."""
        return list(self._names)

    def nameless(self) -> list[TableId]:
        """Known tables whose relation is known as another: it was renamed, and described under that name where reading
        began.
        """
        named = set(self._names.values())
        return [
            table
            for table, known in self._known.items()
            if table not in named and ColumnFingerprint.parse(known.identity)
        ]

    def table(self, oid: int) -> TableId | None:
        """The table that a relation is, if it is followed."""
        return self._names.get(oid)

    def met(self, relation: Relation) -> Iterator[Outcome]:
        """A relation message: its rows come next."""
        table = TableId(relation.schema, relation.name)
        self.layouts[relation.oid] = None
        if table not in self._tables:
            yield from self._left(relation.oid)
            return
        self._carry(relation.oid, table)
        try:
            described = self._catalog.details_by_oid({relation.oid: table}).get(relation.oid)
            if isinstance(described, NoIdentity) and relation.oid in self._names:
                layout = self._layout(relation, table, None, keyed=True)
            elif isinstance(described, TableError):
                raise described
            else:
                layout = self._layout(relation, table, described)
        except PartitionOfSelected as error:  # the log names it before the table whose rows its own become
            if table in self._tables.tables:
                yield table, error
            return
        except NoIdentity:  # a new table: an observation tells when it has one, or that the patience is over
            return
        except TableError as error:
            yield table, error
            return
        self.layouts[relation.oid] = layout
        yield from self._become(layout.schema, {a.name: a for a in layout.attributes if a.number})

    def met_partition(self, relation: Relation, root: int) -> Iterator[Outcome]:
        """The log names a partition before rows that come as those of its table, the relation `root`.

        It is known from here on: if it is gone again when the catalog is looked at, so are rows that the log has shown.
        """
        if relation.oid in self._names or TableId(relation.schema, relation.name) in self._tables.tables:
            yield from self.met(relation)
        self.layouts[relation.oid] = None
        table = self._names.get(root)
        present = ColumnFingerprint.parse(self._known[table].identity) if table else None
        if table is not None and present is not None and (more := present.with_partition(relation.oid)) != present:
            self._known[table] = replace(self._known[table], identity=str(more))
            yield TableChange(Ddl.ALTER_TABLE, table, self._known[table])

    def seen(self, descriptions: Mapping[int, Described], present: Mapping[int, TableId]) -> Iterator[Outcome]:
        """An observation of the catalog: `present` names all tables of the selection, `descriptions` are of those that
        changed.
        """
        for oid in [oid for oid, table in self._names.items() if present.get(oid) not in self._tables]:
            yield from self._left(oid)
        for table in self.nameless():
            yield self._gone(table)
        for oid in self._in_order(present, descriptions):
            described = descriptions[oid]
            if isinstance(described, TableError):
                yield present[oid], described
            else:
                yield from self._become(described.schema, {a.name: a for a in described.attributes})

    def redefine(self, said: LoggedDefinition) -> Iterator[Outcome]:
        """A message of the event trigger: what a statement has made of these tables, at this place of the log."""
        for oid in said.dropped:
            yield from self._left(oid)
        types = Types(said.types)
        for row in said.relations:
            table = table_of(row)
            if table not in self._tables:
                yield from self._left(int(row["oid"]))
                continue
            try:
                described = self._catalog.described(row, types)
            except PartitionOfSelected:
                continue
            except NoIdentity:
                continue
            except TableError as error:
                yield table, error
                continue
            yield from self._become(described.schema, {a.name: a for a in described.attributes})

    def _in_order(self, present: Mapping[int, TableId], oids: Iterable[int]) -> list[int]:
        """Tables whose name is free come first, so that a chain of renames needs no detour."""
        left = [oid for oid in oids if present.get(oid) in self._tables]
        ordered: list[int] = []
        taken = {table: oid for oid, table in self._names.items()}
        while left:
            free = [oid for oid in left if taken.get(present[oid], oid) == oid] or left[:1]
            ordered += free
            left = [oid for oid in left if oid not in free]
            for oid in free:
                taken.pop(self._names.get(oid, present[oid]), None)
                taken[present[oid]] = oid
        return ordered

    def _left(self, oid: int) -> Iterator[TableChange]:
        table = self._names.pop(oid, None)
        if table is not None:
            self._was[oid] = table
            yield self._gone(table)

    def _carry(self, oid: int, table: TableId) -> TableId | None:
        """The relation has this name from here on.  Returns the one that it had; None where that is the same."""
        before = self._names.get(oid) or self._was.get(oid)
        if before is None or before == table:
            return None
        self._tables.carry(before, table)
        return before

    def _gone(self, table: TableId) -> TableChange:
        del self._known[table]
        return TableChange(Ddl.DROP_TABLE, table, text=f"{table} no longer exists")

    def _become(self, schema: TableSchema, attributes: Mapping[str, Attribute]) -> Iterator[Outcome]:
        """From here on the relation has this name and this schema."""
        table, now = schema.table, ColumnFingerprint.parse(schema.identity)
        assert now is not None
        was = self._carry(now.oid, table)
        schema = schema.without(self._tables.columns_left_out(table))
        if not now.published:  # only observations tell
            now = replace(now, published=self.publication_of(now.oid))
            schema = replace(schema, identity=str(now))
        before = self._names.get(now.oid)
        occupant = self._known.get(table)
        if before != table and occupant is not None:
            if ColumnFingerprint.parse(occupant.identity) is None:  # from before tables had identities here
                before = table
            else:
                oid = next((oid for oid, name in self._names.items() if name == table), None)
                if oid is None:
                    yield self._gone(table)
                else:
                    yield from self._left(oid)
                if before is not None:  # names were exchanged: who was where, the log does not say
                    yield from self._left(now.oid)
                    before = None
        if before is None:
            self._keep(schema, now.oid)
            text = f"{table} was added to the selection"
            yield TableChange(Ddl.CREATE_TABLE, table, schema, reload=True, text=text, was=was)
            return
        old = self._known[before]
        if before != table:
            del self._known[before]
            renamed = replace(old.without(self._tables.columns_left_out(table)), table=table)
            reload = len(renamed.columns) < len(old.columns)
            text = f"{before} is called {table} now"
            yield TableChange(Ddl.RENAME_TABLE, before, renamed, table, reload=reload, text=text)
            old = renamed
        self._keep(schema, now.oid)
        yield from _altered(self._with_empty(old, now), schema, attributes)

    def _with_empty(self, old: TableSchema, now: ColumnFingerprint) -> TableSchema:
        """As if it had had the partitions that were attached since, where they have brought no rows: often they are
        made so.
        """
        before = ColumnFingerprint.parse(old.identity)
        attached = now.attached_since(before) if before else {}
        if before is None or not attached or not self._catalog.are_empty(attached):
            return old
        for oid, came in attached.items():
            before = before.with_partition(oid, f"e{came[1:]}")
        return replace(old, identity=str(before))

    def _keep(self, schema: TableSchema, oid: int) -> None:
        self._known[schema.table] = schema
        self._names[oid] = schema.table

    def _layout(
        self, relation: Relation, table: TableId, described: TableDescription | None, *, keyed: bool = False
    ) -> TupleLayout:
        """`keyed`: it has lost its replica identity for the moment and will get it back; until then only inserts come.

        The catalog supplies what the message does not say, if both otherwise agree.

        Nullability may thus be reported before its position; targets do not enforce it.  The partitions of a table and
        their storage must not be: rows that go with a partition, after this position, are in no log, and only an
        observation shows when.
        """
        left_out = self._tables.columns_left_out(table)
        places = [place for place, column in enumerate(relation.columns) if column.name not in left_out]
        columns = [relation.columns[place] for place in places]
        old = self._known.get(self._names.get(relation.oid, table))
        if described is not None and _consistent(relation.identity, columns, described):
            attributes = described.attributes
            schema = replace(described.schema, table=table)
            if described.kind == "p":
                known = self._known.get(self._names[relation.oid]) if relation.oid in self._names else None
                schema = replace(schema, identity=known.identity if known else str(ColumnFingerprint(relation.oid)))
        else:
            check_left_out(table, left_out, [column.name for column in relation.columns])
            attributes = tuple(self._attribute(column, old) for column in columns)
            schema = self._schema(relation, table, attributes, old, keyed=keyed)
        return TupleLayout(schema, attributes, tuple(places), len(relation.columns))

    def _attribute(self, column: RelationColumn, old: TableSchema | None) -> Attribute:
        """From the message alone; a column of that name that was there keeps its number."""
        kind = self._catalog.types([column.type]).get(column.type)
        if kind is None:
            raise UnsupportedDdl(f"The type of column {column.name} no longer exists.")
        number = next((c.number for c in old.columns if c.name == column.name), 0) if old else 0
        return Attribute(column.name, number, kind, column.typmod, kind.name)

    def _schema(
        self,
        relation: Relation,
        table: TableId,
        attributes: tuple[Attribute, ...],
        old: TableSchema | None,
        *,
        keyed: bool,
    ) -> TableSchema:
        """Where the catalog is ahead of the log: from the message, and from what was known so far."""
        names = [a.name for a in attributes]
        key = tuple(c.name for c in relation.columns if c.key) if relation.identity != ReplicaIdentity.FULL else ()
        if old is not None and (keyed or relation.identity == ReplicaIdentity.FULL or set(key) == set(old.key)):
            key = old.key if set(old.key) <= set(names) else key
        if not set(key) <= set(names):
            raise UnsupportedDdl(f"A key column of {table} is excluded.", table=str(table))
        columns = tuple(
            _like(column_of(a, table, zero_dates=self._zero_dates, key=a.name in key), old) for a in attributes
        )
        partial = bool(key) and relation.identity != ReplicaIdentity.FULL
        print_, comment = str(ColumnFingerprint(relation.oid)), old.comment if old is not None else ""
        schema = TableSchema(table, columns, key, partial, print_, comment)
        return (
            replace(schema, identity=old.identity) if old == schema else schema
        )  # an observation will tell if it was rewritten


def _like(column: Column, old: TableSchema | None) -> Column:
    """What the log does not say of a column is as it was."""
    known = {c.name: c for c in old.columns} if old is not None else {}
    was = known.get(column.name)
    return was if was is not None and was.type == column.type else column


def _consistent(identity: str, columns: Iterable[RelationColumn], described: TableDescription) -> bool:
    """Does the catalog show just what the log says?"""
    shown = [(a.name, a.type.oid, a.typmod) for a in described.attributes]
    return identity == described.identity and [(c.name, c.type, c.typmod) for c in columns] == shown


def _altered(old: TableSchema, new: TableSchema, attributes: Mapping[str, Attribute]) -> Iterator[TableChange]:
    before, now = ColumnFingerprint.parse(old.identity), ColumnFingerprint.parse(new.identity)
    rewritten = before is None or now is None or now.rewritten(before)
    numbers = {c.number: c.name for c in old.columns if c.number}
    renamed = {numbers[c.number]: c.name for c in new.columns if numbers.get(c.number, c.name) != c.name}
    was = {renamed.get(c.name, c.name): c for c in old.columns if c.name in renamed or c.name not in renamed.values()}
    width = before.width if before else 0
    reload = old.key != new.key or any(
        _fills(column, was.get(column.name), attributes, width) for column in new.columns
    )
    differs = replace(old, table=new.table) != new
    republished = before is not None and now is not None and now.republished(before)
    said = (
        "was published differently or unlogged temporarily, so changes may be missing in the log"
        if republished
        else "has another schema"
    )
    if differs or reload or rewritten or republished:
        yield TableChange(
            Ddl.ALTER_TABLE, new.table, new, renamed=renamed, reload=reload or rewritten or republished,
            text=f"{new.table} {said}",
        )  # fmt: skip
    elif not replace(old, table=new.table).same_as(new):
        yield TableChange(Ddl.ALTER_TABLE, new.table, new)  # only so that who reads on from here knows it again


def _fills(column: Column, was: Column | None, attributes: Mapping[str, Attribute], width: int) -> bool:
    """May rows that exist have got a value in this column that the log does not show?

    `width`: of the table as it was; a column up to there was generated and not in the log, and keeps its values (DROP
    EXPRESSION).
    """
    if was is None:
        one = attributes.get(column.name)
        return one is None or one.has_missing or one.has_default or bool(one.generated) or not 0 < width < one.number
    if column.number and was.number and column.number != was.number:
        return True  # dropped and added again
    return was.type != column.type and not widens(was.type, column.type)
