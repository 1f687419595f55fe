"""Reading a table of the target as canonical cells; an Iceberg table with pyiceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, Reference
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.table import FileScanTask, Table
from sqlalchemy.exc import SQLAlchemyError

from replicator.errors import TargetError
from replicator.verification.cells import Cell
from replicator.verification.model import CatalogConfig, TablePair

Row = tuple[Cell, ...]
LOW_DIGITS = 18
GROUP_BYTES = 64 * 1024 * 1024
FILTERABLE = {"int", "long", "string", "binary"}


class TableVersion(Protocol):
    """A table as it was at one time."""

    def name(self) -> tuple[str, ...]: ...

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        """Record batches with these columns, in this order, of the rows that are wanted.  Raises TargetError."""
        ...


@dataclass(frozen=True)
class PinnedTable:
    """Column names and Iceberg types in the target's order; `handle` is pinned to the present snapshot.

    present: which rows are compared.  ordered: are the columns in the source's order?
    """

    handle: TableVersion
    columns: tuple[tuple[str, str], ...]
    present: BooleanExpression = field(default_factory=AlwaysTrue)
    ordered: bool = True


def open_catalog(config: CatalogConfig) -> Catalog:
    """Raises TargetError where the catalog cannot be reached."""
    try:
        if "type" in config.properties:
            return load_catalog(config.name, **config.properties)
        own = {"uri": config.uri, "warehouse": config.warehouse, "init_catalog_tables": "false"}
        return SqlCatalog(config.name, **own, **config.properties)
    except Exception as error:  # noqa: BLE001 - any error of SQLAlchemy's drivers
        message = f"the catalog {config.name} cannot be opened ({type(error).__name__})"
        raise TargetError(message) from None  # its text may hold the address with its password: invariant 8


def open_table(catalog: Catalog, pair: TablePair) -> PinnedTable:
    """The table as it is now.  Raises TargetError where it does not exist."""
    try:
        table = catalog.load_table((pair.namespace, pair.name))
    except (NoSuchTableError, NoSuchNamespaceError):
        message = f"{pair.namespace}.{pair.name} does not exist in the target"
        raise TargetError(message, table=str(pair)) from None
    except SQLAlchemyError as error:
        message = f"the catalog has no tables yet, or cannot be read ({type(error).__name__})"
        raise TargetError(message, table=str(pair)) from None  # invariant 8, as above
    except OSError as error:
        message = f"the metadata of {pair.namespace}.{pair.name} cannot be read: {error}"
        raise TargetError(message, table=str(pair)) from error
    columns = tuple((field.name, str(field.field_type)) for field in table.schema().fields)
    column, value = pair.part
    if not column:
        return PinnedTable(_Snapshot(table), columns)
    if column not in dict(columns):
        message = f"{pair.namespace}.{pair.name} has no column {column}: it is not shared"
        raise TargetError(message, table=str(pair))
    return PinnedTable(_Snapshot(table, EqualTo(column, value)), columns, ordered=False)


class _Snapshot:
    """The present one of an Iceberg table.  part: of its rows, where several source tables share it."""

    def __init__(self, table: Table, part: BooleanExpression | None = None) -> None:
        self._table, self._part = table, part or AlwaysTrue()

    def name(self) -> tuple[str, ...]:
        return tuple(self._table.name())

    def read(self, names: Sequence[str], wanted: BooleanExpression) -> Iterator[pa.RecordBatch]:
        table = self._table
        if table.current_snapshot() is None:
            return
        scan = table.scan(row_filter=And(self._part, wanted), selected_fields=tuple(names), limit=None)
        schema = schema_to_pyarrow(scan.projection(), include_field_ids=False)
        arrow = ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter)
        try:
            for tasks in _groups(scan.plan_files()):
                for batch in arrow.to_record_batches(tasks):
                    yield batch.cast(schema)
        except (ValueError, NotImplementedError, OSError) as error:
            message = f"pyiceberg cannot read the target: {error}"
            raise TargetError(message) from error


def batches(
    table: PinnedTable, names: Sequence[str], filters: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """Record batches with the columns `names`."""
    return table.handle.read(names, And(table.present, filters or AlwaysTrue()))


def _groups(tasks: Iterable[FileScanTask]) -> Iterator[list[FileScanTask]]:
    """Group files to read at a time: pyiceberg holds all files of a read in memory (invariant 9)."""
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        if group and size + task.file.file_size_in_bytes > GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(task)
        size += task.file.file_size_in_bytes
    if group:
        yield group


def key_filter(name: str, iceberg: str, cells: Sequence[Cell]) -> BooleanExpression:
    """Rows whose column `name` has one of these values, at least."""
    if iceberg not in FILTERABLE or None in cells:
        return AlwaysTrue()
    values: dict[str, Any] = {"int": int, "long": int, "string": lambda cell: cell.decode(), "binary": bytes}
    return In(term=Reference(name), values={values[iceberg](cell) for cell in cells})


def rows(batch: pa.RecordBatch, names: Sequence[str]) -> list[Row]:
    """Rows of canonical cells, columns in the order of `names`."""
    cells = [canonical(batch.column(batch.schema.get_field_index(name))) for name in names]
    return list(zip(*cells, strict=True))


def canonical(column: pa.Array) -> list[Cell]:
    """Cells of one column by its Arrow type; TypeError for one that the tables of a replicator never have."""
    kind = column.type
    if pa.types.is_decimal(kind):
        return _decimal(column.cast(pa.decimal128(38, kind.scale)), kind.precision)
    if pa.types.is_floating(kind):
        values = column.fill_null(0).to_numpy(zero_copy_only=False)
        values = np.where(np.isnan(values), values.dtype.type("nan"), values)  # every NaN is the same
        return _nulls(column, [value.tobytes() for value in values])
    for known, through in _THROUGH:
        if known(kind):
            for step in through:
                column = column.cast(step)
            return _bytes(column)
    message = f"no canonical form for {kind}"
    raise TypeError(message)


_THROUGH: tuple[tuple[Callable[[pa.DataType], bool], tuple[pa.DataType, ...]], ...] = (
    (pa.types.is_boolean, (pa.int8(), pa.string())),
    (pa.types.is_integer, (pa.string(),)),
    (pa.types.is_date32, (pa.string(),)),
    (pa.types.is_timestamp, (pa.timestamp("us"), pa.string())),
    (pa.types.is_string, ()),
    (pa.types.is_large_string, ()),
    (pa.types.is_string_view, ()),
    (pa.types.is_binary, ()),
    (pa.types.is_large_binary, ()),
    (pa.types.is_fixed_size_binary, (pa.binary(),)),
)


def _bytes(column: pa.Array) -> list[Cell]:
    cells: list[Cell] = column.cast(pa.large_binary()).to_numpy(zero_copy_only=False).tolist()
    return cells


def _nulls(column: pa.Array, cells: list[bytes]) -> list[Cell]:
    if not column.null_count:
        return list(cells)
    valid = column.is_valid().to_numpy(zero_copy_only=False).tolist()
    return [cell if keep else None for cell, keep in zip(cells, valid, strict=True)]


def _decimal(column: pa.Array, precision: int) -> list[Cell]:
    """The unscaled 128-bit integers, read from the buffer itself (Arrow columnar format, "Decimal")."""
    filled = pc.fill_null(column, pa.scalar(0, column.type)) if column.null_count else column
    words = np.frombuffer(filled.buffers()[1], np.int64)[2 * filled.offset :][: 2 * len(filled)]
    low, high = words[0::2], words[1::2]
    if precision <= LOW_DIGITS:
        return _nulls(column, [b"%d" % value for value in low.tolist()])
    pairs = zip(low.view(np.uint64).tolist(), high.tolist(), strict=True)
    return _nulls(column, [b"%d" % ((above << 64) + below) for below, above in pairs])
