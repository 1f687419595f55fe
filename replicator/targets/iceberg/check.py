"""The test of an Iceberg destination: what would fail later, tried now, by a table that is made and removed again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from replicator.errors import TargetError
from replicator.sources.base import CheckResult, CheckStatus
from replicator.targets.check import LOOKED_INTO, Attempt, said, tried, written
from replicator.targets.iceberg import reading
from replicator.targets.iceberg.destination import BUILT_IN, NO_LAKE, OWNER, REST, LakeCatalog, lake_catalog
from replicator.targets.iceberg.layout import Layout

V2 = 2  # of the format: pyiceberg's default
ROWS = pa.table({"tidemark_test": pa.array([1], pa.int64())})


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """One line for each thing tried; it ends with the first that fails."""
    if settings.get("catalog", BUILT_IN) == BUILT_IN:
        detail = "The catalog is part of this installation; workers reach it as they reach its database."
        return [CheckResult("catalog", "Catalog", CheckStatus.OK, detail)]

    @contextmanager
    def opened() -> Iterator[_Probe]:
        with _opened(settings) as (lake, catalog):
            yield _Probe(lake, catalog, Layout.parse(settings))

    return tried("Catalog", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Does this catalog have tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        with _opened(settings) as (_, catalog):
            prefix = str(settings.get("namespace_prefix", ""))
            found = [name for name in catalog.list_namespaces() if name[0].startswith(prefix)]
            tables = [table for name in found for table in catalog.list_tables(name)]
            yield from (OWNER in catalog.load_table(table).properties for table in tables[:LOOKED_INTO])

    return written("catalog", ours)


@contextmanager
def _opened(settings: Mapping[str, Any]) -> Iterator[tuple[LakeCatalog, Catalog]]:
    """Raises TidemarkError; also for a name that another program takes away meanwhile."""
    lake = lake_catalog(settings, NO_LAKE)
    with reading.opened(lake) as catalog:
        try:
            yield lake, catalog
        except (NoSuchNamespaceError, NoSuchTableError) as error:
            message = f"What was in the catalog a moment ago is not found there: {said(error)}"
            remedy = "Check that no other program removes new tables and namespaces; then test again."
            raise TargetError(message, remedy=remedy) from None


class _Probe:
    """A test namespace with a test table.  layout: of the replicator that asks, where it is one."""

    def __init__(self, lake: LakeCatalog, catalog: Catalog, layout: Layout) -> None:
        self._lake, self._catalog, self._layout = lake, catalog, layout
        self._namespace = f"tidemark_test_{uuid.uuid4().hex[:12]}"
        self._table, self._other = (self._namespace, "t"), (self._namespace, "f")

    @property
    def attempts(self) -> list[Attempt]:
        return [
            ("Catalog", self._listed),
            ("Privilege to create", self._create),
            ("Privilege to write", self._write),
            ("Privilege to read", self._read),
            *([("Table format", self._format)] if self._lake.kind == REST and self._layout.version != V2 else []),
            ("Privilege to drop", self._drop),
        ]

    def _listed(self) -> str:
        count = len(self._catalog.list_namespaces())
        return f"The catalog responds and has {count} namespace{'' if count == 1 else 's'}."

    def _create(self) -> str:
        self._catalog.create_namespace(self._namespace)
        place = f"{self._lake.warehouse}/{self._namespace}/t" if self._lake.warehouse else None
        own = dict(self._layout.properties)
        made = self._catalog.create_table(self._table, ROWS.schema, location=place, properties=own)
        return f"A namespace and a table can be created; the table is at {made.location()}."

    def _write(self) -> str:
        self._catalog.load_table(self._table).append(ROWS)
        return "A file can be written to the store, and committed."

    def _read(self) -> str:
        found = self._catalog.load_table(self._table).scan().to_arrow()
        return f"The row that was written is read: {found.num_rows}."

    def _format(self) -> str:
        """Only of a REST catalog, which makes the table itself: pyiceberg writes no other version."""
        own = {"format-version": str(self._layout.version)}
        self._catalog.create_table(self._other, ROWS.schema, properties=own)
        self._drop_table(self._other)
        return f"A table of format version {self._layout.version} can be created."

    def _drop(self) -> str:
        self._drop_table(self._table)
        self._catalog.drop_namespace(self._namespace)
        return "Tables and namespaces can be dropped."

    def _drop_table(self, name: tuple[str, str]) -> None:
        self._delete_files(name)
        self._catalog.drop_table(name)

    def _delete_files(self, name: tuple[str, str]) -> None:
        """What the table has in the store: dropping it leaves that there."""
        with suppress(Exception):
            table = self._catalog.load_table(name)
            data = [task.file.file_path for task in table.scan().plan_files()]
            snapshot = table.current_snapshot()
            manifests = [one.manifest_path for one in snapshot.manifests(table.io)] if snapshot else []
            lists = [snapshot.manifest_list] if snapshot else []
            older = [one.metadata_file for one in table.metadata.metadata_log]
            for path in (*data, *manifests, *lists, *older, table.metadata_location):
                with suppress(Exception):
                    table.io.delete(path)

    def remove(self) -> None:
        """Delete all that is left of them, as far as possible."""
        for name in (self._table, self._other):
            with suppress(Exception):
                if self._catalog.table_exists(name):
                    self._drop_table(name)
        with suppress(Exception):
            self._catalog.drop_namespace(self._namespace)
