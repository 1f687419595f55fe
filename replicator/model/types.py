"""The types a value can have between source and target, and their Arrow form.

A source maps each of its types onto exactly one of these without loss, or refuses (invariant 7).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

MAX_DECIMAL_PRECISION = 38


class Kind(StrEnum):
    """Tidemark's own names, which schemas are stored under; what a target calls them is its kind's `types`."""

    BOOLEAN = "boolean"
    INT = "int"
    BIGINT = "bigint"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP_NTZ = "timestamp_ntz"
    TIMESTAMP = "timestamp"


_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class DataType:
    """`precision` and `scale` are set for decimals only (precision 1 to 38, scale 0 to precision)."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind is Kind.DECIMAL else self.kind.value

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type in change batches and segments."""
        return pa.decimal128(self.precision, self.scale) if self.kind is Kind.DECIMAL else _ARROW[self.kind]

    @classmethod
    def parse(cls, text: str) -> DataType:
        """Inverse of `str`; raises ValueError for any other text."""
        if match := _DECIMAL.fullmatch(text):
            return decimal(int(match[1]), int(match[2]))
        return cls(Kind(text))


BOOLEAN = DataType(Kind.BOOLEAN)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
FLOAT = DataType(Kind.FLOAT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
BINARY = DataType(Kind.BINARY)
DATE = DataType(Kind.DATE)
TIMESTAMP_NTZ = DataType(Kind.TIMESTAMP_NTZ)
TIMESTAMP = DataType(Kind.TIMESTAMP)


def decimal(precision: int, scale: int) -> DataType:
    """A decimal type; ValueError beyond 38 digits."""
    if not (0 < precision <= MAX_DECIMAL_PRECISION and 0 <= scale <= precision):
        message = f"decimal({precision},{scale}) is not supported"
        raise ValueError(message)
    return DataType(Kind.DECIMAL, precision, scale)


def widens(old: DataType, new: DataType) -> bool:
    """True where every value of `old` is the same value of `new`, so that rows need not be read again.

    Every target has to take such a change in place (`targets.base.Evolve`); what else it can is its own affair.
    """
    if old.kind is Kind.DECIMAL and new.kind is Kind.DECIMAL:
        return old.scale == new.scale and old.precision < new.precision
    return (old.kind, new.kind) in {(Kind.INT, Kind.BIGINT), (Kind.FLOAT, Kind.DOUBLE)}
