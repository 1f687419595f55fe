"""Key ranges in SQL: which rows lie between two keys, are among some keys, fulfil a condition.

The server's own part is a dialect's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from replicator.model.schema import TableSchema
from replicator.sources.base import KeyRange
from replicator.sources.shared.conditions import condition_sql
from replicator.sources.shared.dialect import SourceDialect


class KeyRanges(ABC):
    """Key ranges of one table.

    Key values are literals of the dialect; a column of the key is given by its position in the key.
    """

    dialect: SourceDialect
    everything: ClassVar[str] = "TRUE"  # a condition that every row fulfils

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema

    @abstractmethod
    def column(self, place: int) -> str:
        """The column as it is compared."""

    @abstractmethod
    def ordered(self, name: str) -> str:
        """The column as ORDER BY has it."""

    @abstractmethod
    def given(self, place: int, text: str) -> str:
        """The literal for a value as people write it (`replicator.snapshot.keys`)."""

    def compared(self, place: int, sign: str, value: str) -> str:
        """The column's comparison with a literal."""
        return f"{self.column(place)} {sign} {value}"

    def row_compared(self, sign: str, values: Sequence[str]) -> str | None:
        """The comparison of the whole key with a row of literals, where an index serves that; else None."""
        del sign, values
        return None

    def one_of(self, values: Sequence[str]) -> str | None:
        """Return the condition that a single-column key is one of these literals; None to compare with each of them."""
        return f"{self.column(0)} IN ({', '.join(values)})"

    def order_by(self, direction: str = "ASC") -> str:
        """The order of the key."""
        return ", ".join(f"{self.ordered(name)} {direction}" for name in self.schema.key)

    def selected(self, rows: KeyRange) -> str:
        """The rows of a range, of a list of keys, that a condition is true for."""
        conditions = [self.within(rows)] if rows.lower is not None or rows.upper is not None else []
        if rows.keys:
            rows.require_fit(self.schema)
            conditions.append(f"({self._among(rows.keys)})")
        if rows.condition:
            conditions.append(f"({condition_sql(rows.condition, self.schema, self.dialect)})")
        return " AND ".join(conditions) or self.everything

    def within(self, bounds: KeyRange) -> str:
        """The rows of a range, lexicographic, in a form that is a condition on the index."""
        bounds.require_fit(self.schema)
        conditions = []
        if bounds.lower is not None:
            conditions.append(self._beyond(bounds.lower, ">", ">"))
        if bounds.upper is not None:
            conditions.append(self._beyond(bounds.upper, "<", "<="))
        return " AND ".join(conditions) or self.everything

    def _beyond(self, values: Sequence[str], sign: str, last_sign: str) -> str:
        """(a > x) OR (a = x AND b > y) OR …; the last column is compared by `last_sign`."""
        if (whole := self.row_compared(last_sign, values)) is not None:
            return whole
        last = len(values) - 1
        cases = []
        for place, value in enumerate(values):
            equal = [self.compared(i, "=", values[i]) for i in range(place)]
            cases.append(" AND ".join([*equal, self.compared(place, last_sign if place == last else sign, value)]))
        if not last:
            return cases[0]
        return f"({self.compared(0, f'{sign}=', values[0])} AND (({') OR ('.join(cases)})))"

    def _among(self, keys: Sequence[Sequence[str]]) -> str:
        given = [[self.given(place, text) for place, text in enumerate(key)] for key in keys]
        if len(self.schema.key) == 1 and (found := self.one_of([values[0] for values in given])) is not None:
            return found
        equal = [[self.compared(place, "=", value) for place, value in enumerate(values)] for values in given]
        return " OR ".join(f"({' AND '.join(parts)})" for parts in equal)
