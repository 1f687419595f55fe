"""Values that people write, as values of a column's type: exact or refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation

from replicator.model.types import DataType, Kind

Value = str | int | bool | Decimal | date | datetime
WRITABLE = frozenset(
    {Kind.STRING, Kind.INT, Kind.BIGINT, Kind.DECIMAL, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}
)
_BITS = {Kind.INT: 32, Kind.BIGINT: 64}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def value_of(text: str, column: DataType) -> Value:
    """Return `text` as a value of the column's type; ValueError where it is not exactly one.

    A timestamp without a zone is in UTC where the type has one.
    """
    try:
        return _value(text, column)
    except (LookupError, InvalidOperation, OverflowError):
        raise ValueError(text) from None


def _value(text: str, column: DataType) -> Value:
    match column.kind:
        case Kind.STRING:
            return text
        case Kind.INT | Kind.BIGINT:
            return _integer(text, _BITS[column.kind])
        case Kind.BOOLEAN:
            return _BOOLEANS[text.lower()]
        case Kind.DECIMAL:
            return _decimal(text, column)
        case Kind.DATE:
            return date.fromisoformat(text)
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return _moment(text, zoned=column.kind is Kind.TIMESTAMP)
    raise ValueError(text)


def _integer(text: str, bits: int) -> int:
    number = int(text)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(text)
    return number


def _decimal(text: str, column: DataType) -> Decimal:
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > column.scale:
        raise ValueError(text)
    if len(digits) + exponent > column.precision - column.scale and number:
        raise ValueError(text)
    return number


def _moment(text: str, *, zoned: bool) -> datetime:
    moment = datetime.fromisoformat(text)
    if not zoned:
        if moment.tzinfo is not None:
            raise ValueError(text)
        return moment
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
