"""The test of a Delta Lake destination: what would fail later, tried now, by a table that is made and removed again."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from replicator.errors import TargetConflict, TargetError
from replicator.model.retention import Retention
from replicator.model.schema import SEQUENCE
from replicator.sources.base import CheckResult, CheckStatus
from replicator.targets.base import Position, TargetTable
from replicator.targets.check import LOOKED_INTO, Attempt, tried, written
from replicator.targets.delta import schema_update
from replicator.targets.delta.destination import BUILT_IN, DeltaStore, delta_store, folder, refuse_link_local
from replicator.targets.delta.failures import explained
from replicator.targets.delta.live_files import LiveFiles
from replicator.targets.delta.table import OWNER, OpenTable, create, file_system
from replicator.targets.iceberg.destination import NO_LAKE

ROWS = pa.table({"tidemark_test": pa.array([1], pa.int64()), SEQUENCE: pa.array([0], pa.int64())})
BEGIN = Position(-1, -1, 1, "")
WRITERS, ROUNDS = 4, 3
SHORT = {"connect_timeout": "3s", "timeout": "10s", "max_retries": "1", "retry_timeout": "10s"}


def check(settings: Mapping[str, Any]) -> list[CheckResult]:
    """One line for each thing tried; it ends with the first that fails."""
    if (settings.get("store") or BUILT_IN) == BUILT_IN:
        detail = "The location is part of this installation; workers reach it as they reach its lakehouse."
        return [CheckResult("location", "Location", CheckStatus.OK, detail)]

    @contextmanager
    def opened() -> Iterator[_Probe]:
        yield _Probe(_impatient(delta_store(settings, NO_LAKE)))

    return tried("Location", opened)


def check_written(settings: Mapping[str, Any]) -> CheckResult:
    """Are there tables that Tidemark has made?  Never raises."""

    def ours() -> Iterator[bool]:
        store = _impatient(delta_store(settings, NO_LAKE))
        yield from (_is_ours(store, path) for path in _tables(store, str(settings.get("namespace_prefix", ""))))

    return written("location", ours)


def _impatient(store: DeltaStore) -> DeltaStore:
    return DeltaStore(store.location, {**store.options, **SHORT} if store.options else {}, store.files)


def _tables(store: DeltaStore, prefix: str) -> list[str]:
    """URLs of folders that may be tables."""
    with explained(store):
        files = file_system(store, store.location)
        spaces = _folders(files, "")
        found = [one for space in spaces if space.startswith(folder(prefix)) for one in _folders(files, space)]
    return [f"{store.location}/{one}" for one in found[:LOOKED_INTO]]


def _folders(files: pafs.FileSystem, path: str) -> list[str]:
    found = files.get_file_info(pafs.FileSelector(path, allow_not_found=True))
    return [one.path for one in found if one.type is pafs.FileType.Directory]


def _is_ours(store: DeltaStore, uri: str) -> bool:
    table = OpenTable.load_from(store, TargetTable("", uri), uri)
    return table is not None and OWNER in table.configuration


class _Probe:
    """A test table."""

    def __init__(self, store: DeltaStore) -> None:
        with explained(store):
            refuse_link_local(store)
        self._store = store
        self._name = TargetTable(f"tidemark_test_{uuid.uuid4().hex[:12]}", "t")

    @property
    def attempts(self) -> list[Attempt]:
        return [
            ("Privilege to create", self._create),
            ("Privilege to write", self._write),
            ("Privilege to read", self._read),
            ("Conditional writes", self._compete),
            ("Privilege to delete", self._delete),
        ]

    def _opened(self) -> OpenTable:
        found = OpenTable.load(self._store, self._name)
        if found is None:
            message = f"The table that was written to {self._store.location} is not found there."
            raise TargetError(message, remedy="Check that no rule of the store moves or deletes new files.")
        return found

    def _create(self) -> str:
        own = schema_update.configuration("test", Retention.parse())
        create(self._store, self._name, ROWS.schema, BEGIN, own)
        return f"A table can be created below {self._store.location}."

    def _write(self) -> str:
        files = LiveFiles(self._opened(), threading.Event())
        files.rewrite({}, [ROWS])
        files.commit(BEGIN)
        return "A file can be written to the store, and committed."

    def _read(self) -> str:
        files = LiveFiles(self._opened(), threading.Event())
        found = sum(group.num_rows for one in files.files for _, group in files.read(one, ROWS.column_names))
        return f"The row that was written is read: {found}."

    def _compete(self) -> str:
        """A store that takes a file where there is one already would let two workers write one version."""
        for _ in range(ROUNDS):
            barrier, tables = threading.Barrier(WRITERS), [self._opened() for _ in range(WRITERS)]

            def commit(table: OpenTable, barrier: threading.Barrier = barrier) -> bool:
                barrier.wait()
                try:
                    table.commit(BEGIN)
                except TargetConflict:
                    return False
                return True

            with ThreadPoolExecutor(WRITERS) as pool:
                done = sum(pool.map(commit, tables))
            if done != 1:
                message = f"The store at {self._store.location} let {done} of {WRITERS} writers write the same version."
                remedy = "Use a store with conditional writes (If-None-Match), which Amazon S3, GCS and Azure have."
                raise TargetError(message, remedy=remedy)
        return f"Of {WRITERS} concurrent writers, exactly one succeeds."

    def _delete(self) -> str:
        with explained(self._store):
            self._remove()
        return "Files can be deleted."

    def _remove(self) -> None:
        files = file_system(self._store, self._store.location)
        files.delete_dir(folder(self._name.namespace))

    def remove(self) -> None:
        """Delete all that is left of the table, as far as possible."""
        with suppress(Exception):
            self._remove()
