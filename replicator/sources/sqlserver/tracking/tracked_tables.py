"""The tables that are tracked: their schemas at the place of reading, and since which version each is tracked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from replicator.model.identifiers import TableId
from replicator.sources.sqlserver.catalog.table_description import CaptureInstance, TableDescription
from replicator.sources.sqlserver.config import Capture
from replicator.sources.sqlserver.ddl.table_changes import Outcome, altered
from replicator.sources.sqlserver.stream.known_tables import Followed, KnownTables
from replicator.sources.sqlserver.tracking.change_tracking import enabled


class TrackedTables(KnownTables[int]):
    """The tables that Change Tracking follows.  One connection; one thread.

    Rows are read as they are now, under the present definition, so a changed definition is reported before the rows.
    """

    capture = Capture.TRACKING

    @property
    def described(self) -> list[TableDescription]:
        """Of all tables whose rows are read now."""
        known = (one.described for one in self._known.values())
        return [one for one in known if one is not None and one.since is not None]

    def unchanged(self, tables: Collection[TableId]) -> bool:
        """Are they still defined and tracked as at the last look?"""
        now = self._catalog.details(sorted(tables))
        return all(table in self._known and self._known[table].described == now.get(table) for table in tables)

    def _start(self, found: TableDescription) -> tuple[TableDescription, CaptureInstance | None, int | None]:
        found = enabled(self._connection, found)
        return found, None, found.since

    def _go_on(self, table: TableId, one: Followed, found: TableDescription, position: int) -> Iterator[Outcome]:
        """Tracked since another version: it was truncated, or Change Tracking was off for a while."""
        del position
        found = one.described = enabled(self._connection, found)
        known = one.identity
        anew = known is None or known.instance != found.since
        text = f"{table} is tracked since version {found.since}: it was truncated, or was not tracked" if anew else ""
        change = altered(one.schema, found, reload=anew, text=text)
        if change is not None:
            one.schema = found.schema
            yield change
