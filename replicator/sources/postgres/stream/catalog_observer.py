"""Observations of the catalog while the log is read: what is visible, where the log ends, and which tables have
changed.

An observation stands for the place where the log ended when it was taken, and is acted upon when the log was read up to
there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from replicator.errors import TableError
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.postgres.catalog.attributes import ColumnFingerprint, TableDescription, as_published
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.catalog.describe_sql import PRINTS
from replicator.sources.postgres.catalog.publication import NOT_PUBLISHED, published
from replicator.sources.postgres.catalog.replica_identity import NoIdentity
from replicator.sources.postgres.connection import Connection, read_rows, server_version, translated
from replicator.sources.postgres.offset import parse_lsn
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.postgres.xid_snapshot import Snapshot

MIN_SECONDS = 2.0
# A table may get its key or its replica identity (back) in a later statement, as pg_restore does at the very end.
PATIENCE_SECONDS = 60.0
SHARE = 50  # observations take at most one part in SHARE of the time

_NOW = """
SELECT pg_catalog.pg_current_snapshot()::text, pg_catalog.pg_current_wal_flush_lsn()::text, pg_catalog.clock_timestamp()
"""
_TABLES = f"""
SELECT c.oid::bigint, n.nspname, c.relname, c.relispartition, {PRINTS}, {{published}}
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_publication p ON p.pubname = %s
WHERE c.relkind IN ('r', 'p')
  AND (c.oid = ANY(%s::oid[]) OR n.nspname = ANY(%s) OR (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[],
    %s::text[])))
"""


@dataclass(frozen=True)
class Now:
    """`snapshot` was taken before `lsn`, the end of the log, was asked for; `at` is the server's clock."""

    snapshot: Snapshot
    lsn: int
    at: datetime


@dataclass(frozen=True)
class CatalogSnapshot:
    """The selection's tables that exist, and the descriptions of those that differ from what the log's reader knows.

    `refused`: those described that cannot be replicated, as they were seen.
    `republished`: another session has changed how some of them are published.
    `published`: those that were not published when they were last seen.
    """

    now: Now
    present: Mapping[int, TableId]
    descriptions: Mapping[int, TableDescription | TableError]
    refused: Mapping[int, ColumnFingerprint] = field(default_factory=dict)
    republished: bool = False
    published: frozenset[TableId] = frozenset()


def now(connection: Connection, where: str) -> Now:
    """Raises SourceUnreachable."""
    snapshot, lsn, at = read_rows(connection, _NOW, where)[0]
    return Now(Snapshot.parse(snapshot), parse_lsn(lsn), at)


class CatalogObserver:
    """Takes an observation now and then.  One thread, one connection."""

    def __init__(
        self,
        connection: Connection,
        where: str,
        catalog: PostgresCatalog,
        tables: TableSet,
        publication: str,
        *,
        ours: bool,
    ) -> None:
        """`catalog` is on the same connection, so that its descriptions are of the observation's own moment.

        `ours`: the publication is.
        """
        self._connection, self._where, self._catalog, self._tables = connection, where, catalog, tables
        self._publication = publication
        self._sql = _TABLES.replace("{published}", published(server_version(connection), ours=ours))
        self._awaited: dict[int, float] = {}
        self._next = 0.0

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def hurry(self) -> None:
        """Something has changed."""
        self._next = 0.0

    def look(self, relations: Relations) -> CatalogSnapshot | None:
        """None where no table differs from what the reader knows, and none is gone."""
        began = time.monotonic()
        with translated(self._where), self._connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                observation = self._look(cursor, relations)
            finally:
                cursor.execute("ROLLBACK")
        self._next = time.monotonic() + max(MIN_SECONDS, SHARE * (time.monotonic() - began))
        return observation

    def _awaits(self, oid: int, found: TableDescription | TableError) -> bool:
        """May the table still wait until its rows can be identified (again)?"""
        if not isinstance(found, NoIdentity):
            self._awaited.pop(oid, None)
            return False
        return time.monotonic() - self._awaited.setdefault(oid, time.monotonic()) < PATIENCE_SECONDS

    def _look(self, cursor: Any, relations: Relations) -> CatalogSnapshot | None:
        named = sorted(self._tables.tables)
        schemas, names = [t.database for t in named], [t.name for t in named]
        asked = (self._publication, relations.oids, sorted(self._tables.searched), schemas, names)
        cursor.execute(self._sql, asked)
        present: dict[int, TableId] = {}
        changed: dict[int, ColumnFingerprint] = {}
        for oid, schema, name, leaf, *prints in cursor.fetchall():
            table = TableId(schema, name)
            if leaf and table not in self._tables.tables:
                continue
            present[oid] = table
            seen = ColumnFingerprint(oid, *prints)
            if table in self._tables and relations.differs(oid, table, seen):
                changed[oid] = seen
        followed = {oid for oid, table in present.items() if table in self._tables}
        gone = bool(relations.nameless()) or not followed.issuperset(relations.oids)
        if not (changed or gone):
            return None
        descriptions = self._catalog.details_by_oid({oid: present[oid] for oid in changed})
        for oid in [oid for oid, found in descriptions.items() if self._awaits(oid, found)]:
            del descriptions[oid]
        if not (descriptions or gone):
            return None
        described = {
            oid: found if isinstance(found, TableError) else as_published(found, changed[oid].published)
            for oid, found in descriptions.items()
        }
        others = [oid for oid in described if relations.publication_of(oid) not in {"", changed[oid].published}]
        anew = {oid for oid in others if relations.publication_of(oid) == NOT_PUBLISHED}
        refused = {oid: changed[oid] for oid, found in described.items() if isinstance(found, TableError)}
        cursor.execute(_NOW)
        snapshot, lsn, at = cursor.fetchone()
        return CatalogSnapshot(
            Now(Snapshot.parse(snapshot), parse_lsn(lsn), at),
            present,
            described,
            refused,
            len(anew) < len(others),
            frozenset(present[oid] for oid in anew),
        )
