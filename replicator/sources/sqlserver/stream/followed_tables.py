"""The tables that are followed: their schemas at the present place of the log, and the change table of each.

Definitions are not in the change tables.  The catalog is looked at after the log's end was asked for, so what it shows
holds for all that is read up to that end: captured columns keep their values, and a changed one is read as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from replicator.errors import LogPurged, TableError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.sqlserver.catalog.table_description import UNESTABLISHED, CaptureInstance, TableDescription
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.connection import SqlServerSession
from replicator.sources.sqlserver.ddl.history import Statement, statements_after
from replicator.sources.sqlserver.ddl.table_changes import Outcome, altered
from replicator.sources.sqlserver.dialect import binary
from replicator.sources.sqlserver.offset import lsn_text
from replicator.sources.sqlserver.rows.change_rows import META, change_table
from replicator.sources.sqlserver.stream import capture_instances
from replicator.sources.sqlserver.stream.known_tables import Followed, KnownTables
from replicator.sources.sqlserver.stream.windows import ChangeSource


class FollowedTables(KnownTables[bytes]):
    """One connection; one thread."""

    capture = Capture.CDC

    def __init__(
        self, connection: SqlServerSession, tables: TableSet, schemas: Mapping[TableId, TableSchema], start: bytes
    ) -> None:
        """`schemas` are those that held at `start`."""
        super().__init__(connection, tables, schemas)
        self._statements: list[Statement] = []  # all that were seen; `_fresh`: those of the last look
        self._fresh: list[Statement] = []
        self._seen_ddl = start
        self._noticed: set[str] = set()

    @property
    def sources(self) -> list[ChangeSource]:
        """Of all tables whose rows are read now."""
        return [
            ChangeSource(one.described.under(one.instance), one.instance)
            for one in self._known.values()
            if one.described is not None and one.instance is not None
        ]

    def look(self, position: bytes) -> Iterator[Outcome]:
        """Report what the catalog shows now, at `position`.  LogPurged."""
        self._fresh = statements_after(self._connection, self._seen_ddl)
        if self._fresh:
            self._seen_ddl = self._fresh[-1].lsn
            self._statements += self._fresh
        yield from super().look(position)

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
        """Return our instances that are not read again, even if reading restarts at `durable`."""
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

    def _go_on(self, table: TableId, one: Followed, found: TableDescription, position: bytes) -> Iterator[Outcome]:
        self._choose(one, found, position)
        yield from self._tell(one, reload=_rows_changed(found, self._fresh))
        self._rotate(table, one, found)

    @property
    def unestablished(self) -> bool:
        """Does a table of the selection wait for the capture job?"""
        return UNESTABLISHED in self._begins.values()

    def _start(self, found: TableDescription) -> tuple[TableDescription, CaptureInstance | None, bytes | None]:
        if not found.instances:
            capture_instances.enable(self._connection, found)
            found = self._again(found)
        instance = found.newest
        return (found, None, None) if instance is None else (found.under(instance), instance, instance.start)

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
                # It is what describes the table, made while others read through the one before; or cleaned up.
                before = [each for each in established if each.start <= position]
                if not before:
                    raise _purged(one.schema.table, current.start, position)
                current = before[-1]
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
        "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080; -- minutes",
    )
