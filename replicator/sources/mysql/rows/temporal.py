"""Dates and times of the log: packed integers → days, microseconds or the server's text.

Layouts: MySQL's my_time.cc (…2 types, with fractions), and the decimal forms from before MySQL 5.6.
"""

# ruff: noqa: FBT001, PLR2004 - the functions of one table share one form; limits of clocks and calendars

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Literal

from replicator.errors import ValueDoesNotFit
from replicator.model.schema import Column
from replicator.model.types import Kind
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.rows import table_map as t
from replicator.sources.mysql.rows.table_map import LogColumn
from replicator.sources.mysql.types import ZERO_DATE_REMEDY
from replicator.sources.shared.date_policy import date_policy

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400_000_000
_FRACTION = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3}  # digits → bytes
_PACKED = {t.TIME2: 3, t.DATETIME2: 5, t.TIMESTAMP2: 4}
_DAYS_KEPT = 100_000
_MAX_HOURS = 838
_Moment = Callable[[str], Any]
NO_DATE = object()  # what a date that does not exist is until its column is finished as null: they are counted


def _zero_policy(column: Column, options: ReadOptions) -> _Moment:
    """What a date that does not exist becomes."""
    if column.type.kind is Kind.STRING:
        return lambda text: text
    if date_policy(options) == "fail" or not column.nullable:

        def fail(text: str) -> None:
            message = f"Column {column.name} ({column.source_type}) holds {text!r}, which is not a valid date."
            raise ValueDoesNotFit(message, remedy=ZERO_DATE_REMEDY, column=column.name)

        return fail
    return lambda _: NO_DATE


def temporal_size(log: LogColumn) -> int:
    """Bytes of a value."""
    if log.type in _PACKED:
        return _PACKED[log.type] + _FRACTION[log.metadata]
    return {t.DATE: 3, t.NEWDATE: 3, t.TIME: 3, t.DATETIME: 8, t.TIMESTAMP: 4}[log.type]


def temporal_converter(log: LogColumn, column: Column, options: ReadOptions) -> Callable[[bytes], Any]:
    """A converter as in column_values; ValueDoesNotFit for a date that does not exist, by policy."""
    digits = log.metadata if log.type in _PACKED else 0
    convert = TEMPORAL[log.type](digits, column.type.kind is Kind.STRING, _zero_policy(column, options))
    order: Literal["big", "little"] = "big" if log.type in _PACKED else "little"

    def converted(data: bytes) -> Any:
        try:
            return convert(int.from_bytes(data, order))
        except ValueError:
            raise impossible(column, data) from None

    return converted


def impossible(column: Column, data: bytes) -> ValueDoesNotFit:
    """For bytes that no server writes for a value of the column's type."""
    message = (
        f"Column {column.name} ({column.source_type}) holds {data.hex()} in the log, which is not a valid value of its"
        " type."
    )
    return ValueDoesNotFit(message, column=column.name)


def _clock(hour: int, minute: int, second: int, micros: int, most: int = 23) -> None:
    """ValueError for what no clock shows: it would become another time without a word."""
    if hour > most or minute > 59 or second > 59 or micros > 999_999:
        raise ValueError


def _fractions(digits: int) -> Callable[[int], int]:
    """From the stored fraction to microseconds; ValueError where it has more digits than the column."""
    scale, unit = _scale(digits), 10 ** (6 - digits)

    def fraction(stored: int) -> int:
        micros = stored * scale
        if micros % unit:
            raise ValueError
        return micros

    return fraction


def _fraction_text(micros: int, digits: int) -> str:
    return f".{micros:06}"[: digits + 1] if digits else ""


def _scale(digits: int) -> int:
    """Microseconds that one unit of the stored fraction is."""
    return int(10 ** (6 - 2 * _FRACTION[digits]))


_days: dict[tuple[int, int, int], int | None] = {}


def _day_number(year: int, month: int, day: int) -> int | None:
    """Days since 1970; None for a date that does not exist, but can be stored (2024-02-30); ValueError for others."""
    key = (year, month, day)
    if key not in _days:
        if not (0 <= year <= 9999 and month <= 12 and day <= 31):
            raise ValueError
        if len(_days) > _DAYS_KEPT:
            _days.clear()
        try:
            _days[key] = date(year, month, day).toordinal() - _EPOCH
        except ValueError:
            _days[key] = None
    return _days[key]


_Temporal = Callable[[int], Any]


def _date(_digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    def convert(packed: int) -> Any:
        year, month, day = packed >> 9, packed >> 5 & 15, packed & 31
        number = _day_number(year, month, day)
        if number is None or as_text:
            text = f"{year:04}-{month:02}-{day:02}"
            return text if as_text else zero(text)
        return number

    return convert


def _moment(digits: int, as_text: bool, zero: _Moment) -> Callable[..., Any]:
    def build(year: int, month: int, day: int, hour: int, minute: int, second: int, micros: int) -> Any:
        number = _day_number(year, month, day)
        _clock(hour, minute, second, micros)
        if number is None or as_text:
            clock = f"{hour:02}:{minute:02}:{second:02}{_fraction_text(micros, digits)}"
            text = f"{year:04}-{month:02}-{day:02} {clock}"
            return text if as_text else zero(text)
        return number * _DAY + (hour * 3600 + minute * 60 + second) * 1_000_000 + micros

    return build


def _datetime(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    build = _moment(digits, as_text, zero)

    def convert(packed: int) -> Any:
        days, clock = divmod(packed, 1_000_000)
        return build(days // 10000, days // 100 % 100, days % 100, clock // 10000, clock // 100 % 100, clock % 100, 0)

    return convert


def _datetime2(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    build, bits, fraction = _moment(digits, as_text, zero), 8 * _FRACTION[digits], _fractions(digits)
    offset, mask = 0x8000000000 << bits, (1 << bits) - 1

    def convert(packed: int) -> Any:
        packed -= offset
        whole, micros = packed >> bits, fraction(packed & mask)
        year, month = divmod(whole >> 22, 13)
        return build(year, month, whole >> 17 & 31, whole >> 12 & 31, whole >> 6 & 63, whole & 63, micros)

    return convert


def _timestamp(digits: int, as_text: bool, zero: _Moment) -> _Temporal:
    bits, fraction = 8 * _FRACTION[digits], _fractions(digits)
    mask = (1 << bits) - 1

    def convert(packed: int) -> Any:
        seconds, micros = packed >> bits, fraction(packed & mask)
        _clock(0, 0, 0, micros)
        if packed == 0:
            return zero(f"0000-00-00 00:00:00{_fraction_text(0, digits)}")
        if as_text:
            day, clock = date.fromordinal(_EPOCH + seconds // 86400), seconds % 86400
            hms = f"{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
            return f"{day.isoformat()} {hms}{_fraction_text(micros, digits)}"
        return seconds * 1_000_000 + micros

    return convert


def _time(_digits: int, _as_text: bool, _zero: _Moment) -> _Temporal:
    def convert(packed: int) -> str:
        value = packed - (1 << 24) if packed >= 1 << 23 else packed
        clock = abs(value)
        _clock(clock // 10000, clock // 100 % 100, clock % 100, 0, _MAX_HOURS)
        return f"{'-' if value < 0 else ''}{clock // 10000:02}:{clock // 100 % 100:02}:{clock % 100:02}"

    return convert


def _time2(digits: int, _as_text: bool, _zero: _Moment) -> _Temporal:
    bits, fraction = 8 * _FRACTION[digits], _fractions(digits)
    offset, mask = 0x800000 << bits, (1 << bits) - 1

    def convert(packed: int) -> str:
        value = packed - offset
        sign, value = ("-", -value) if value < 0 else ("", value)
        whole, micros = value >> bits, fraction(value & mask)
        _clock(whole >> 12, whole >> 6 & 63, whole & 63, micros, _MAX_HOURS)
        clock = f"{whole >> 12 & 1023:02}:{whole >> 6 & 63:02}:{whole & 63:02}"
        return f"{sign}{clock}{_fraction_text(micros, digits)}"

    return convert


TEMPORAL: dict[int, Callable[[int, bool, _Moment], _Temporal]] = {
    t.DATE: _date, t.NEWDATE: _date, t.TIME: _time, t.TIME2: _time2, t.DATETIME: _datetime, t.DATETIME2: _datetime2,
    t.TIMESTAMP: _timestamp, t.TIMESTAMP2: _timestamp,
}  # fmt: skip
