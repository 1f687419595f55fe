"""The tables that are followed: their schemas at the present place of the log, and the change table of each.

Definitions are not in the change tables.  The catalog is looked at after the log's end was asked for, so what it shows
holds for all that is read up to that end: captured columns keep their values, and a changed one is read as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from replicator.errors import LogPurged, TableBusy, TableDisappeared, TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.sqlserver.catalog.catalog import SqlServerCatalog
from replicator.sources.sqlserver.catalog.table_description import (
    UNESTABLISHED,
    CaptureInstance,
    Described,
    Identity,
    TableDescription,
)
from replicator.sources.sqlserver.connection import Connection
from replicator.sources.sqlserver.ddl.history import Statement, statements_after
from replicator.sources.sqlserver.ddl.table_changes import Outcome, altered, created, dropped, renamed_table
from replicator.sources.sqlserver.dialect import binary
from replicator.sources.sqlserver.offset import lsn_text
from replicator.sources.sqlserver.rows.change_rows import META, change_table
from replicator.sources.sqlserver.stream import capture_instances
from replicator.sources.sqlserver.stream.windows import ChangeSource


@dataclass
class Followed:
    """`schema`: as it was told.  `instance`: whose rows are read; None while there is none.  `next`: takes over at its
    start.
    """

    schema: TableSchema
    described: TableDescription | None = None
    instance: CaptureInstance | None = None
    next: CaptureInstance | None = None
    broken: bool = False  # rows may be missing before `next`

    @property
    def identity(self) -> Identity | None:
        return Identity.parse(self.schema.identity)


class FollowedTables:
    """One connection; one thread."""

    def __init__(
        self, connection: Connection, tables: TableSet, schemas: Mapping[TableId, TableSchema], start: bytes
    ) -> None:
        """`schemas` are those that held at `start`."""
        self._connection, self._tables = connection, tables
        self._catalog = SqlServerCatalog(connection, tables)
        self._known = {table: Followed(schema) for table, schema in schemas.items() if table in tables}
        self._failed: dict[TableId, str] = {}
        self._statements: list[Statement] = []
        self._seen_ddl = start
        self._noticed: set[str] = set()
        self.notices: list[str] = []

    @property
    def sources(self) -> list[ChangeSource]:
        """Of all tables whose rows are read now."""
        return [
            ChangeSource(one.described.under(one.instance), one.instance)
            for one in self._known.values()
            if one.described is not None and one.instance is not None
        ]

    def schema(self, table: TableId) -> TableSchema | None:
        """As it was told."""
        found = self._known.get(table)
        return found.schema if found else None

    def fail(self, table: TableId) -> None:
        """Its rows are passed over from here on."""
        one = self._known.pop(table, None)
        self._failed[table] = f"{one.identity.number} {one.identity.created}" if one and one.identity else ""

    def look(self, position: bytes) -> Iterator[Outcome]:
        """What the catalog shows now; it is told at `position`.  LogPurged."""
        statements = statements_after(self._connection, self._seen_ddl)
        if statements:
            self._seen_ddl = statements[-1].lsn
            self._statements += statements
        numbered = self._catalog.numbered()
        yield from self._moved(numbered)
        selected = [table for table in numbered.values() if table in self._tables]
        described = self._catalog.details(sorted({*selected, *self._known}))
        for table in selected:
            found = described.get(table)
            if found is not None:
                yield from self._seen(table, found, position, statements)

    def next_switch(self, position: bytes) -> bytes | None:
        """Where the next table's rows come through another instance."""
        starts = [one.next.start for one in self._known.values() if one.next is not None]
        return min((start for start in starts if position < start < UNESTABLISHED), default=None)

    def take_over(self, position: bytes) -> Iterator[Outcome]:
        """Instances that begin before or at this place are read from here on."""
        for one in list(self._known.values()):
            if one.next is not None and one.next.start <= position and one.described is not None:
                reload = one.broken or self._missed(one)
                one.instance, one.next, one.broken = one.next, None, False
                yield from self._tell(one, reload=reload)

    def superseded(self, durable: bytes) -> list[tuple[TableId, CaptureInstance]]:
        """Instances of ours that are read no more, whatever place of the log is gone back to."""
        return [
            (table, old)
            for table, one in self._known.items()
            if one.described is not None and one.instance is not None and one.instance.start <= durable
            for old in one.described.instances
            if capture_instances.is_ours(old) and old.number != one.instance.number and old.start < one.instance.start
        ]

    def require_whole(self, position: bytes, starts: Mapping[int, bytes]) -> None:
        """LogPurged where the cleanup job has removed what comes after `position`; `starts`: of the instances now."""
        for table, one in self._known.items():
            if one.instance is not None:
                start = starts.get(one.instance.number)
                if start is not None and position < start < UNESTABLISHED:
                    raise _purged(table, start, position)

    # ---- one table

    def _moved(self, numbered: Mapping[int, TableId]) -> Iterator[Outcome]:
        for table, one in list(self._known.items()):
            identity = one.identity
            if identity is None:
                continue
            now = numbered.get(identity.number)
            if now == table:
                continue
            del self._known[table]
            if now is None or now not in self._tables or now in self._known:
                yield dropped(table)
            else:
                change = renamed_table(one.schema, now)
                self._known[now] = replace(one, schema=replace(one.schema, table=now))
                yield change

    def _seen(
        self, table: TableId, found: Described, position: bytes, statements: Iterable[Statement]
    ) -> Iterator[Outcome]:
        if isinstance(found, TableError):
            yield from self._refused(table, found)
            return
        one = self._known.get(table)
        if one is not None and (identity := one.identity) is not None and identity.created != found.created:
            del self._known[table]
            yield dropped(table)
            one = None
        if one is None:
            yield from self._new(table, found, position)
            return
        one.described = found
        try:
            self._choose(one, found, position)
            yield from self._tell(one, reload=_rows_changed(found, statements))
            self._rotate(table, one, found)
        except TableBusy:
            return
        except TableError as error:
            yield from self._refused(table, error)

    def _new(self, table: TableId, found: TableDescription, position: bytes) -> Iterator[Outcome]:
        """A table that came into the selection: told of once reading has come to where its change table begins."""
        if table in self._failed and not self._made_again(table, found):
            return
        try:
            if not found.instances:
                capture_instances.enable(self._connection, found)
                found = self._again(found)
        except TableBusy:
            return
        except TableError as error:
            yield from self._refused(table, error)
            return
        instance = found.newest
        if instance is not None and instance.start <= position:
            self._failed.pop(table, None)
            described = found.under(instance)
            self._known[table] = Followed(described.schema, described, instance)
            yield created(described.schema)

    def _made_again(self, table: TableId, found: TableDescription) -> bool:
        return self._failed[table] != f"{found.number} {found.created}"

    def _choose(self, one: Followed, found: TableDescription, position: bytes) -> None:
        """Whose rows are read from `position` on, and what comes after."""
        identity = one.identity
        wanted = identity.instance if identity is not None and one.instance is None else 0
        number = one.instance.number if one.instance is not None else wanted
        current = next((each for each in found.instances if each.number == number), None)
        established = [each for each in found.instances if each.start != UNESTABLISHED]
        newest = established[-1] if established else None
        if current is not None and current.start != UNESTABLISHED:
            if current.start > position:
                raise _purged(one.schema.table, current.start, position)
            one.instance = current
            later = newest is not None and newest.number != current.number and newest.start > current.start
            one.next = newest if later else None
            return
        one.instance = None
        if not found.instances:
            capture_instances.enable(self._connection, found)
        one.broken = True
        one.next = newest

    def _rotate(self, table: TableId, one: Followed, found: TableDescription) -> None:
        """A second instance, where a statement has added columns that the newest lacks."""
        newest = found.newest
        if newest is None or not found.missing or one.next is not None:
            return
        if not capture_instances.is_ours(newest):
            text = (
                f"{table}: the capture instance {newest.name} does not have the columns {', '.join(found.missing)},"
                " which are left out. To take them: "
                f"{capture_instances.enable_statement(table, f'{found.number}_more')};"
            )
            if text not in self._noticed:
                self._noticed.add(text)
                self.notices.append(text)
            return
        if any(each.start == UNESTABLISHED for each in found.instances):
            return
        if len(found.instances) >= capture_instances.MOST:
            oldest = found.instances[0]
            if not capture_instances.is_ours(oldest):
                raise capture_instances.both_taken(found)
            if one.instance is not None and oldest.number != one.instance.number:
                capture_instances.disable(self._connection, table, oldest.name)
                found = self._again(found)
        capture_instances.enable(self._connection, found)

    def _again(self, found: TableDescription) -> TableDescription:
        """With its instances as they are now."""
        instances = self._catalog.instances(f"t.source_object_id = {found.number}").get(found.number, [])
        return replace(found, instances=tuple(instances))

    def _tell(self, one: Followed, *, reload: bool) -> Iterator[Outcome]:
        if one.described is None or (one.instance is None and not reload):
            return
        described = one.described.under(one.instance)
        change = altered(one.schema, described, reload=reload, text=self._text(described.number))
        if change is not None:
            one.schema = described.schema
            yield change

    def _refused(self, table: TableId, error: TableError) -> Iterator[Outcome]:
        if isinstance(error, TableDisappeared):
            return
        one = self._known.pop(table, None)
        said = f"{one.identity.number} {one.identity.created}" if one and one.identity else error.message
        if one is not None or self._failed.get(table) != said:
            self._failed[table] = said
            yield error

    def _text(self, number: int) -> str:
        """The last statement on the table."""
        return next((each.text for each in reversed(self._statements) if each.source == number), "")

    def _missed(self, one: Followed) -> bool:
        """May rows have got values of added columns before the instance that has them began?

        True as well where the log does not say when they were added.
        """
        described, before, after = one.described, one.instance, one.next
        if described is None or before is None or after is None:
            return True
        added = [each for each in described.columns if after.place(each) is not None and before.place(each) is None]
        if not added:
            return False
        lsns = [each.lsn for each in self._statements if each.source == described.number and each.lsn > before.start]
        if not lsns:
            return True
        first = f"[{META[0]}]"
        try:
            rows = self._connection.rows(
                f"SELECT TOP (1) 1 FROM {change_table(before)} WHERE {first} > {binary(min(lsns))} "
                f"AND {first} <= {binary(after.start)}",
                described.schema.table,
            )
        except TableError:  # it is gone
            return True
        return bool(rows)


def _rows_changed(found: TableDescription, statements: Iterable[Statement]) -> bool:
    """Has a statement changed rows without a trace?"""
    return any(each.source == found.number and each.changes_rows for each in statements)


def _purged(table: TableId, start: bytes, position: bytes) -> LogPurged:
    return LogPurged(
        f"The cleanup job has removed changes of {table}: its change table begins at {lsn_text(start)}, and reading is"
        f" at {lsn_text(position)}.",
        remedy="Restart the replicator from scratch (resnapshots all its tables), and keep change tables longer: "
        "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080; (minutes)",
    )
