"""A table as one version of its log has it, and the one way to the next version."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, RemoveAction

from replicator.errors import TargetConflict, TargetError, UnsupportedDdl
from replicator.faults import reach
from replicator.folding.footers import MAX_TEXT_LENGTH
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE
from replicator.model.types import DataType, decimal
from replicator.targets.base import Position, TargetTable
from replicator.targets.delta import position as positions
from replicator.targets.delta.destination import DeltaStore, refuse_link_local
from replicator.targets.delta.failures import explained
from replicator.targets.delta.names import NAMES
from replicator.targets.iceberg.direct.file_systems import file_system as native_file_system
from replicator.targets.iceberg.direct.file_systems import inside, root
from replicator.targets.parquet_files import ParquetFiles, Written

OWNER = "tidemark.replicator"
# Features that Tidemark's writes preserve; a table with another feature is left to other programs.  No column is a
# variant: delta-rs 1.6.6 adds that feature with any property that is set on a table that has features at all.
FEATURES = frozenset({"timestampNtz", "appendOnly", "invariants", "vacuumProtocolCheck", "v2Checkpoint", "variantType"})
_KINDS = {name: kind for kind, name in NAMES.items()}
Bounds = dict[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A data file.  low, high: of columns whose bounds are known, as Python has them."""

    path: str
    size: int
    rows: int
    low: Bounds = field(default_factory=dict)
    high: Bounds = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, written: Written) -> DataFile:
        """Of a file that was written just now."""
        low, high, nulls = _bounds(written.metadata) if written.metadata else ({}, {}, {})
        return cls(written.uri, written.size, written.rows, low, high, nulls)

    def added(self, *, changes: bool = True) -> AddAction:
        """Return the log's entry.  changes: False where rows are only rewritten."""
        stats = {
            "numRecords": self.rows,
            "minValues": {name: _shown(value) for name, value in self.low.items()},
            "maxValues": {name: _shown(value) for name, value in self.high.items()},
            "nullCount": self.nulls,
        }
        return AddAction(self.path, self.size, {}, _now(), changes, json.dumps(stats, ensure_ascii=False))

    def removed(self, *, changes: bool = True) -> RemoveAction:
        """The log's entry."""
        return RemoveAction(self.path, changes, _now(), self.size, {})


class OpenTable:
    """See the module.  Not thread-safe; all errors of delta-rs become TargetError."""

    def __init__(self, store: DeltaStore, name: TargetTable, uri: str, delta: DeltaTable) -> None:
        """Reads the position; raises TargetError for a table that Tidemark cannot write."""
        self.store, self.name, self.uri, self.delta = store, name, uri, delta
        self._look()

    @classmethod
    def load(cls, store: DeltaStore, name: TargetTable) -> OpenTable | None:
        """The newest version; None where there is no log."""
        return cls.load_from(store, name, store.uri(name))

    @classmethod
    def load_from(cls, store: DeltaStore, name: TargetTable, uri: str) -> OpenTable | None:
        """The same of a folder that is known."""
        with explained(store):
            refuse_link_local(store)
            try:
                found = DeltaTable(uri, storage_options=dict(store.options))
            except TableNotFoundError:
                return None
            return cls(store, name, uri, found)

    def _look(self) -> None:
        delta = self.delta
        self.version = delta.version()
        self.configuration = dict(delta.metadata().configuration)
        self.fields = [(one.name, _type(self.name, one.name, one.type)) for one in delta.schema().fields]
        self.arrow = pa.schema([pa.field(name, kind.arrow) for name, kind in self.fields])
        known = positions.read(delta.history(positions.ENTRIES), delta.transaction_version, str(self.name))
        self.position, self.dropped = known or (Position(-1, -1, 0, ""), 0)
        self.known = known is not None
        protocol = delta.protocol()
        features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - FEATURES
        if features:
            message = f"{self.name} has the table feature {min(features)}, which Tidemark cannot write."
            raise TargetError(message, remedy="Drop the feature, or resnapshot the table into another location.")

    @property
    def columns(self) -> list[tuple[str, DataType]]:
        """Without those of Tidemark's own."""
        own = {SEQUENCE, *self.position.mode.columns}
        return [(name, kind) for name, kind in self.fields if name not in own]

    @property
    def mode(self) -> Mode:
        return self.position.mode

    def parquet(self) -> ParquetFiles:
        """Its data files, by their paths in its folder."""
        return ParquetFiles(file_system(self.store, self.uri))

    def files(self) -> list[DataFile]:
        """Live ones."""
        with explained(self.store):
            found = pa.table(self.delta.get_add_actions(flatten=False)).to_pylist()
        return [_data_file(self.name, one) for one in found]

    def commit(
        self,
        at: Position,
        adds: Sequence[AddAction] = (),
        removes: Sequence[RemoveAction] = (),
        *,
        dropped: int = 0,
        same_rows: bool = False,
        numbers: dict[str, int] | None = None,
        discard: Callable[[], None] = lambda: None,
    ) -> None:
        """Files in and out, and the position.  numbers: more `txn` actions.

        TargetConflict where another version came first; then, and whenever it certainly was not done, `discard`.
        """
        self._publish(
            at,
            lambda properties: self.delta.create_write_transaction(
                [*removes, *adds], "append", self.delta.schema(), commit_properties=properties
            ),
            dropped=dropped,
            same_rows=same_rows,
            numbers=numbers,
            discard=discard,
        )

    def overwrite(
        self,
        at: Position,
        arrow: pa.Schema,
        adds: Sequence[AddAction] = (),
        *,
        numbers: dict[str, int] | None = None,
        discard: Callable[[], None] = lambda: None,
    ) -> None:
        """As `commit`; all files go, and the columns become those of `arrow`."""
        self._publish(
            at,
            lambda properties: self.delta.create_write_transaction(
                list(adds), "overwrite", Schema.from_arrow(arrow), commit_properties=properties
            ),
            numbers=numbers,
            discard=discard,
        )

    def alter(
        self,
        alter: Callable[[CommitProperties], None],
        at: Position | None = None,
        numbers: dict[str, int] | None = None,
    ) -> None:
        """A commit of `delta.alter`; with the position as it is where `at` is None.  The table is read again."""
        self._publish(at or self.position, alter, dropped=self.dropped, numbers=numbers)
        self._advance()

    def number(self, name: str) -> int:
        """Of a `txn` action; 0 where there is none."""
        with explained(self.store):
            return self.delta.transaction_version(name) or 0

    def drop(self, due: int) -> None:
        """The table is empty and marked; its files may go from `due` on (seconds since 1970)."""
        self.commit(self.position, (), [one.removed() for one in self.files()], dropped=due)

    def _publish(
        self,
        at: Position,
        act: Callable[[CommitProperties], None],
        *,
        dropped: int = 0,
        same_rows: bool = False,
        numbers: dict[str, int] | None = None,
        discard: Callable[[], None] = lambda: None,
    ) -> None:
        """Commit; without retries (`max_commit_retries`), delta-rs refuses changes of an older version."""
        token = uuid.uuid4().hex
        with _visible(discard):
            try:
                act(_properties(at, dropped, token, numbers or {}, same_rows=same_rows))
            except Exception as error:
                if not self._is_done(token, error, discard):
                    if self._overtaken() or "Failed to commit transaction" in str(error):
                        message = f"Another program committed to {self.name} in the meantime."
                        raise TargetConflict(message, table=str(self.name)) from None
                    with explained(self.store):
                        raise

    def _is_done(self, token: str, error: Exception, discard: Callable[[], None]) -> bool:
        """Was a commit done although it raised an error?  `discard` where it certainly was not, and never will be.

        A request may still be executed after the wait for its answer was abandoned: then the files that it names stay.
        """
        done = self._is_there(token)
        if done is False and isinstance(error, CommitFailedError):
            discard()
        return bool(done)

    def _is_there(self, token: str) -> bool | None:
        """Does the log have the commit?  None where it does not say: an answer may have been lost."""
        try:
            fresh = DeltaTable(self.uri, storage_options=dict(self.store.options))
            newer = fresh.version() - self.version
            entries = fresh.history(newer) if newer > 0 else []
            return any(positions.token(one) == token for one in entries)
        except Exception:  # noqa: BLE001 - any error of a store
            return None

    def _overtaken(self) -> bool:
        """Is there a newer version, as far as is known?"""
        try:
            return DeltaTable(self.uri, storage_options=dict(self.store.options)).version() > self.version
        except Exception:  # noqa: BLE001
            return False

    def unless_overtaken(self, error: Exception) -> Exception:
        """What is wrong with the rows that were read; a conflict where another worker committed since."""
        if not self._overtaken():
            return error
        return TargetConflict(f"Another worker committed to {self.name} in the meantime.", table=str(self.name))

    def _advance(self) -> None:
        """To the version that was just committed.  TargetConflict where another one is the newest."""
        wanted = self.version + 1
        with explained(self.store):
            self.delta.update_incremental()
            self._look()
        if self.version != wanted:
            message = f"Another program committed to {self.name} in the meantime."
            raise TargetConflict(message, table=str(self.name))


@contextmanager
def _visible(discard: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Inside the block a commit is made.  `discard` where it is not even begun."""
    try:
        reach("apply.publish.before")
    except Exception:
        discard()
        raise
    yield
    reach("apply.publish.after")


def create(
    store: DeltaStore,
    name: TargetTable,
    arrow: pa.Schema,
    at: Position,
    configuration: dict[str, str],
    dropped: int = 0,
) -> None:
    """A log's first version.  TargetConflict where there is a log by now."""
    token = uuid.uuid4().hex
    with _visible():
        with explained(store):
            refuse_link_local(store)
            if urlsplit(store.location).scheme == "file":
                local_path(store.uri(name)).mkdir(parents=True, exist_ok=True)
        try:
            DeltaTable.create(
                store.uri(name), Schema.from_arrow(arrow), configuration=configuration,
                storage_options=dict(store.options), commit_properties=_properties(at, dropped, token, {}),
                raise_if_key_not_exists=False,
            )  # fmt: skip
        except Exception:
            found = OpenTable.load(store, name)
            if found is None:
                with explained(store):
                    raise
            if token not in map(positions.token, found.delta.history(positions.ENTRIES)):
                raise TargetConflict(f"{name} was created by another worker.", table=str(name)) from None


def file_system(store: DeltaStore, uri: str) -> pafs.FileSystem:
    """Of a folder, whose paths begin at it."""
    if urlsplit(uri).scheme == "file":
        return pafs.SubTreeFileSystem(str(local_path(uri)), pafs.LocalFileSystem())
    # Not delta-rs' own: Arrow's threads would call Python, also when the process ends, which then aborts.
    with explained(store):
        return pafs.SubTreeFileSystem(inside(uri), native_file_system(root(uri), store.files))


def local_path(uri: str) -> Path:
    """Of a folder's URL."""
    return Path(unquote(urlsplit(uri).path))


def _properties(
    at: Position, dropped: int, token: str, numbers: dict[str, int], *, same_rows: bool = False
) -> CommitProperties:
    said = {**positions.as_numbers(at, dropped), **numbers}
    told = positions.as_text(at, dropped, token)
    return CommitProperties(
        custom_metadata={**told, positions.SAME_ROWS: "true"} if same_rows else told,
        max_commit_retries=0,
        app_transactions=[Transaction(name, value) for name, value in said.items()],
    )


def _type(table: TargetTable, column: str, kind: Any) -> DataType:
    text = kind.type if isinstance(kind, PrimitiveType) else str(kind)
    if text in _KINDS:
        return DataType(_KINDS[text])
    if text.startswith("decimal("):
        precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
        return decimal(int(precision), int(scale))
    message = f"The target column {column} of {table} has the type {text}, which Tidemark did not create."
    raise UnsupportedDdl(message, table=str(table), remedy="Delete the target table, then resnapshot the table.")


def _data_file(table: TargetTable, said: dict[str, Any]) -> DataFile:
    path = unquote(said["path"])
    if "://" in path or path.startswith("/"):
        message = f"{table} has files of another table (a shallow clone), which Tidemark cannot write."
        raise TargetError(message, table=str(table))
    low, high = (_known(said.get(name)) for name in ("min", "max"))
    nulls = {name: int(value) for name, value in _known(said.get("null_count")).items()}
    return DataFile(path, int(said["size_bytes"]), int(said["num_records"] or -1), low, high, nulls)


def _known(values: dict[str, Any] | None) -> Bounds:
    return {name: value for name, value in (values or {}).items() if value is not None}


def _bounds(footer: pq.FileMetaData) -> tuple[Bounds, Bounds, dict[str, int]]:
    """Of whole numbers, days and short texts, which every reader orders alike; of the others only nulls are counted."""
    low: Bounds = {}
    high: Bounds = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for column in (group.column(place) for place in range(group.num_columns)):
            name, found = column.path_in_schema, column.statistics
            if found is None or not found.has_null_count:
                unknown.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if found.null_count == column.num_values:
                continue
            if not found.has_min_max or not _ordered(column, found.min, found.max):
                unknown.add(name)
                continue
            low[name] = min(low.get(name, found.min), found.min)
            high[name] = max(high.get(name, found.max), found.max)
    for name in unknown:
        low.pop(name, None)
        high.pop(name, None)
        if name in nulls and name not in low and footer.num_row_groups == 0:
            del nulls[name]
    return low, high, nulls


def _ordered(column: Any, low: Any, high: Any) -> bool:
    if isinstance(low, str):
        return len(low) <= MAX_TEXT_LENGTH and len(high) <= MAX_TEXT_LENGTH
    whole = isinstance(low, int) and not isinstance(low, bool) and column.physical_type in {"INT32", "INT64"}
    return whole or type(low) is date


def _shown(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _now() -> int:
    return int(time.time() * 1000)
