"""What a comparison asks of a source of any kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from replicator.verification.cells import Cell, CellRule
from replicator.verification.model import TablePair

Row = tuple[Cell, ...]
OpenReader = Callable[[], "SourceReader"]  # raises SourceUnreachable


class NamedColumn(Protocol):
    """A column as its source describes it; `column_type` is for people."""

    @property
    def name(self) -> str: ...
    @property
    def column_type(self) -> str: ...


@dataclass(frozen=True)
class SourceTable:
    """Columns with their rules, in source order, without the excluded ones; `rows` is an estimate.

    `left_out`: columns that must not be in the target although the user did not exclude them, each with the reason.
    `masks`: by column, what becomes of a value that is not null; `types`: by column, the target type before masking.
    `computed`: columns that only the target has, after all others (`TablePair.computed`).
    """

    columns: tuple[tuple[NamedColumn, CellRule], ...]
    rows: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    masks: Mapping[str, Callable[[bytes], Cell]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def plain(self) -> SourceTable:
        """Without what is computed."""
        return self.restrict([name for name in self.names if name not in self.computed])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column, _ in self.columns)

    def iceberg(self, name: str) -> str:
        """The type that column `name` must have in the target."""
        return next(found.iceberg for column, found in self.columns if column.name == name)

    @property
    def unmasked(self) -> SourceTable:
        """As the source has it."""
        columns = (
            (column, replace(how, iceberg=self.types.get(column.name, how.iceberg))) for column, how in self.columns
        )
        return replace(self, columns=tuple(columns), masks={}, types={})

    def restrict(self, names: Sequence[str]) -> SourceTable:
        """Only these columns, in their order here."""
        kept = tuple(pair for pair in self.columns if pair[0].name in set(names))
        return replace(self, columns=kept)


KEYS_AT_ONCE = 200


def keys_where(
    pair: TablePair, table: SourceTable, keys: Sequence[Row], equal: Callable[[Cell, NamedColumn, CellRule], str]
) -> Iterator[str]:
    """WHERE clauses for the rows under these keys, a few hundred a clause; a key with NULL is none.

    `equal`: the comparison of a column with a cell, in the source's SQL.
    """
    columns = [next(one for one in table.columns if one[0].name == name) for name in pair.key]
    for start in range(0, len(keys), KEYS_AT_ONCE):
        wanted = [
            " AND ".join(equal(cell, *one) for cell, one in zip(key, columns, strict=True))
            for key in keys[start : start + KEYS_AT_ONCE]
            if None not in key
        ]
        if wanted:
            yield f" WHERE ({') OR ('.join(wanted)})"


class SourceReader(Protocol):
    """A connection to a source.  What its server says, it raises as errors of `replicator.errors`, inside `reading`."""

    def reading(self, pair: TablePair) -> AbstractContextManager[None]:
        """Around the methods below; connects again where the connection is gone.

        Raises SourceUnreachable where it breaks off, SourceError where the server refuses.
        """

    def tables(self) -> list[tuple[str, str]]:
        """Database (schema) and name of each table that the account sees, partitions apart.

        Raises SourceUnreachable, SourceError.
        """

    def folds_names(self) -> bool:
        """Does the server take names that differ in case for one?  Raises SourceUnreachable, SourceError."""

    def describe(self, pair: TablePair, zero_dates: str) -> SourceTable:
        """Raises TableDisappeared, UnsupportedType."""

    def read(self, pair: TablePair, table: SourceTable) -> Iterator[list[Row]]:
        """All rows as of one moment, in batches of canonical cells."""

    def read_keys(self, pair: TablePair, table: SourceTable, keys: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows that the source holds now under these keys, and perhaps others."""

    def close(self) -> None:
        """The connection, too."""
