"""Which rows have one of these keys: for the targets that look rows up themselves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replicator.folding.fold import NO_KEY, Numbers, numbered

Bound = tuple[object, object]


class KeySet:
    """A set of keys, compared as a source does: zeros are equal regardless of their sign, and NaN equals NaN."""

    def __init__(self, keys: pa.Table) -> None:
        """`keys`: the key's columns and no others; repetitions and nulls are dropped from what is found."""
        self._keys = _compared(keys.combine_chunks())
        self.columns = tuple(keys.column_names)
        self._values = [column.unique() for column in self._keys.columns]

    def bounds(self) -> dict[str, Bound]:
        """Least and greatest values by column, of whole numbers, days and texts."""
        found = {}
        for name, column in zip(self.columns, self._keys.columns, strict=True):
            kind = column.type
            if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_string(kind):
                both = pc.min_max(column).as_py()
                if both["min"] is not None:
                    found[name] = (both["min"], both["max"])
        return found

    def find(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Places of the rows that have one of the keys, ascending, and the place of that key in `keys`."""
        asked = _compared(rows.select(list(self.columns)))
        places = np.arange(asked.num_rows)
        for number, values in enumerate(self._values):
            there = pc.is_in(asked.column(number).take(pa.array(places)), value_set=values, skip_nulls=True)
            places = places[there.to_numpy()]
        if not len(places):
            return places, places
        own, other = numbered([self._keys, asked.take(pa.array(places))])
        first = np.full(int(own.max(initial=0)) + int(other.max(initial=0)) + 2, NO_KEY)
        first[own] = np.arange(len(own))
        first[NO_KEY] = NO_KEY
        entries = first[other]
        found = entries != NO_KEY
        return places[found], entries[found]


def _compared(keys: pa.Table) -> pa.Table:
    """Floats with one zero."""
    for place, field in enumerate(keys.schema):
        if pa.types.is_floating(field.type):
            keys = keys.set_column(place, field, pc.add(keys.column(place), pa.scalar(0.0, field.type)))
    return keys


def in_bounds(low: dict[str, object], high: dict[str, object], bounds: dict[str, Bound]) -> bool:
    """Can a file with these least and greatest values have a row within?  Unknown ones are taken to have."""

    def apart() -> Iterator[bool]:
        for name, (least, greatest) in bounds.items():
            if name in low and name in high:
                yield bool(low[name] > greatest or high[name] < least)  # type: ignore[operator]

    return not any(apart())
