"""The two sides of a table, each read into digest files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pyiceberg.expressions import BooleanExpression

from replicator.errors import TargetError
from replicator.verification.digests import Row, Side, Writer
from replicator.verification.model import TablePair
from replicator.verification.source import SourceReader, SourceTable
from replicator.verification.target import PinnedTable, batches, rows


def write_source(
    path: Path,
    source: SourceReader,
    pair: TablePair,
    table: SourceTable,
    key: Sequence[int],
) -> Side:
    """Read the source table whole.  `key`: positions of the key columns."""
    return write_rows(path, source.read(pair, table), key)


def write_target(path: Path, table: PinnedTable, names: Sequence[str], key: Sequence[int], sequence: str) -> Side:
    """Read the target table whole.  `names`: columns in the source's order; `sequence`: a name or empty."""
    writer = Writer(path, key)
    try:
        for batch in batches(table, (*names, sequence) if sequence else names):
            if sequence:
                column = batch.column(batch.schema.get_field_index(sequence))
                values = column.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
                writer.add_sequences(values, column.null_count)
            writer.add(_rows(table, batch, names))
    finally:
        side = writer.close()
    return side


def write_rows(path: Path, batches_of_rows: Iterator[list[Row]], key: Sequence[int]) -> Side:
    """A side from rows that are made elsewhere."""
    writer = Writer(path, key)
    try:
        for batch in batches_of_rows:
            writer.add(batch)
    finally:
        side = writer.close()
    return side


def target_rows(
    table: PinnedTable, names: Sequence[str], filters: BooleanExpression | None = None
) -> Iterator[list[Row]]:
    """Batches of canonical rows."""
    for batch in batches(table, names, filters):
        yield _rows(table, batch, names)


def _rows(table: PinnedTable, batch: object, names: Sequence[str]) -> list[Row]:
    try:
        return rows(batch, names)
    except TypeError as error:
        message = f"{'.'.join(table.handle.name())}: {error}"
        raise TargetError(message) from error
