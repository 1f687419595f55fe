"""What of the source's rows must be in the target: chosen, then masked, with computed columns; written from
docs/selection.md and not the pipeline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any

from replicator.verification.cells import Cell, show
from replicator.verification.computed_columns import computing, with_computed
from replicator.verification.model import TablePair
from replicator.verification.row_filters import chooser
from replicator.verification.source import Row, SourceReader, SourceTable

Mask = Mapping[str, Any]
EXACT = Context(prec=80)
TRUE = frozenset({"true", "1"})


class TakenReader:
    """A source that has the rows which a pair's filter takes, and of these what its masks make of them."""

    def __init__(self, reader: SourceReader) -> None:
        """`reader` gives the values themselves."""
        self._reader = reader

    def reading(self, pair: TablePair) -> AbstractContextManager[None]:
        """As the reader."""
        return self._reader.reading(pair)

    def tables(self) -> list[tuple[str, str]]:
        """As the reader."""
        return self._reader.tables()

    def folds_names(self) -> bool:
        """As the reader."""
        return self._reader.folds_names()

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """With the types that masked columns have in the target."""
        table = self._reader.describe(pair, zero_dates)
        masks = {
            column.name: masking(pair.masks[column.name], how.iceberg, pair.salt)
            for column, how in table.columns
            if column.name in pair.masks
        }
        types = {column.name: how.iceberg for column, how in table.columns if column.name in masks}
        columns = tuple(
            (column, replace(how, iceberg=masked_type(pair.masks.get(column.name), how.iceberg)))
            for column, how in table.columns
        )
        return with_computed(replace(table, columns=columns, masks=masks, types=types), pair.computed)

    def read(self, pair: TablePair, table: SourceTable) -> Iterator[list[Row]]:
        """All rows that are taken, masked."""
        return _taken(self._reader.read(pair, table.plain), pair, table)

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """Of keys that are not masked."""
        return _taken(self._reader.read_keys(pair, table.plain, keys), pair, table)

    def close(self) -> None:
        """The reader, too."""
        self._reader.close()


def _taken(batches: Iterator[list[Row]], pair: TablePair, table: SourceTable) -> Iterator[list[Row]]:
    plain, computed = table.plain, computing(table)
    chosen = chooser(pair.row_filter, plain.unmasked)
    places = [(place, table.masks[name]) for place, name in enumerate(plain.names) if name in table.masks]
    for rows in batches:
        batch = [row for row in rows if chosen(row)] if pair.row_filter else rows
        if not batch:
            continue
        cells = [list(column) for column in zip(*batch, strict=True)]
        for place, mask in places:
            cells[place] = [None if cell is None else mask(cell) for cell in cells[place]]
        masked = list(zip(*cells, strict=True)) if places else batch
        yield [(*row, *(compute(row) for compute in computed)) for row in masked] if computed else masked


def masked_type(mask: Mask | None, iceberg: str) -> str:
    """In the target."""
    return "string" if mask is not None and mask["kind"] in {"hash", "partial"} else iceberg


def masking(mask: Mask, iceberg: str, salt: bytes) -> Callable[[bytes], Cell]:
    """Of a cell that is not null, whose column has the type `iceberg` in the source's own form."""
    match mask["kind"]:
        case "hash":
            return lambda cell: hashlib.sha256(salt + _text(cell, iceberg)).hexdigest().encode()
        case "partial":
            return lambda cell: _starred(_text(cell, iceberg).decode(), mask["first"], mask["last"]).encode()
        case "fixed":
            fixed = _fixed(str(mask["value"]), iceberg)
            return lambda _: fixed
    return lambda _: None


def _text(cell: bytes, iceberg: str) -> bytes:
    return (show(cell, iceberg) or "").encode() if iceberg.startswith("decimal") else cell


def _starred(text: str, first: int, last: int) -> str:
    if len(text) <= first + last:
        return "*" * len(text)
    return text[:first] + "*" * (len(text) - first - last) + text[len(text) - last :]


def _fixed(value: str, iceberg: str) -> bytes:
    if iceberg in {"int", "long"}:
        return b"%d" % int(value)
    if iceberg == "boolean":
        return b"1" if value.lower() in TRUE else b"0"
    if iceberg.startswith("decimal"):
        scale = int(iceberg.rstrip(")").rpartition(",")[2])
        return b"%d" % int(Decimal(value).scaleb(scale, EXACT))
    return value.encode()
