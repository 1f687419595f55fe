"""A column of values, in SQL_REDO or as a snapshot's SELECT printed them → an Arrow array."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import EventUndecodable, TableError, ValueDoesNotFit
from replicator.model.schema import Column
from replicator.sources.oracle.rows import redo_kernel as r
from replicator.sources.oracle.rows import value_kernel as v
from replicator.sources.oracle.types import DATE_REMEDY, Form, ValueType

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_LARGEST = 2**31 - 1  # an Arrow binary array's offsets have 32 bits
_SHORT = 40  # characters of a value that are shown
# A number that is written as Tidemark writes it: no exponent, no zeros that say nothing.
_PLAIN = r"^(0|-?[1-9][0-9]*)(\.[0-9]*[1-9])?$|^-?0\.[0-9]*[1-9]$"
_DAYS = re.compile(r"\s*([+-]?)(\d+) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?\s*")
_MONTHS = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*")
_MOMENT = re.compile(r"\s*([+-]?)(\d{1,4})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?(?: ([+-]\d\d:\d\d))?\s*")
_PIECE = re.compile(r"\s*(?:\|\|)?\s*(?:(UNISTR)\s*\(\s*)?'((?:[^']|'')*)'\s*\)?\s*", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(\\|[0-9A-Fa-f]{4})")
_FLOATS = {"nan": "nan", "inf": "inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf"}
_WRITTEN: dict[Form, frozenset[int]] = {
    Form.NUMBER: frozenset({r.TEXT}),
    Form.DIGITS: frozenset({r.TEXT}),
    Form.FLOAT: frozenset({r.TEXT}),
    Form.TEXT: frozenset({r.TEXT, r.ESCAPED, r.UNISTR, r.JOINED}),
    Form.MOMENT: frozenset({r.DATE, r.MOMENT}),
    Form.FINE_MOMENT: frozenset({r.DATE, r.MOMENT, r.ZONED}),
    Form.ZONED: frozenset({r.ZONED, r.MOMENT}),
    Form.DAYS: frozenset({r.DAYS}),
    Form.MONTHS: frozenset({r.MONTHS}),
    Form.BYTES: frozenset({r.HEX}),
    Form.ROWID: frozenset({r.TEXT}),
    Form.LOB: frozenset(range(256)),  # any kind
}


@dataclass(frozen=True)
class Cells:
    """One column: where each row's text begins in `data`, its bytes, and what it is (`redo_kernel`)."""

    data: Bytes
    places: Places
    sizes: Places
    kinds: Bytes

    def __len__(self) -> int:
        return len(self.kinds)

    def of(self, rows: Places) -> Cells:
        """These rows."""
        return Cells(self.data, self.places[rows], self.sizes[rows], self.kinds[rows])

    def value(self, row: int) -> bytes:
        """Its text as it stands there."""
        begin = int(self.places[row])
        return self.data[begin : begin + int(self.sizes[row])].tobytes()

    def binary(self) -> pa.Array:
        """Return the texts' bytes, with doubled quotes reduced to one; null where there is no value."""
        offsets, valid = np.empty(len(self) + 1, np.int32), _bits(len(self))
        nulls, size = v.text_offsets(self.data, self.places, self.sizes, self.kinds, offsets, valid)
        if size > _LARGEST:
            message = "More than 2 GiB of values were to become one batch."
            raise ValueError(message)
        out = np.empty(size, np.uint8)
        v.texts(self.data, self.places, self.sizes, self.kinds, offsets, out)
        return _array(pa.binary(), len(self), nulls, valid, offsets, out)

    def unhexed(self) -> pa.Array:
        """The bytes of hexadecimal texts.  ValueError where one is none."""
        offsets, valid = np.empty(len(self) + 1, np.int32), _bits(len(self))
        out = np.empty(int(self.sizes[self.kinds > r.NULL].sum()) // 2 + 1, np.uint8)
        nulls, bad = v.unhexed(self.data, self.places, self.sizes, self.kinds, offsets, out, valid)
        if bad >= 0:
            raise ValueError(bad)
        return _array(pa.binary(), len(self), nulls, valid, offsets, out)


def printed_cells(array: pa.Array, kind: int) -> Cells:
    """Of texts that a SELECT printed: all are of this kind, or NULL."""
    array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    present = np.asarray(array.is_valid())
    kinds = np.where(present, kind, r.NULL).astype(np.uint8)
    found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return Cells(found, np.ascontiguousarray(bounds[:-1]), np.diff(bounds), kinds)


class ColumnArrays:
    """`convert` cells of one column.  `bad`: which of the last ones were dates that the target has none for."""

    def __init__(self, column: Column, value_type: ValueType, zero_dates: str) -> None:
        """zero_dates: what becomes of such dates, `shared.date_policy`."""
        self._column, self._form, self._digits = column, value_type.form, value_type.digits
        self._zero_dates, self._local = zero_dates, is_local(column)
        self._odd_kinds = np.ones(256, np.bool_)
        self._odd_kinds[[r.ABSENT, r.NULL, *_WRITTEN[value_type.form]]] = False
        self.bad: Mask | None = None
        ways: dict[Form, Callable[[Cells], pa.Array]] = {
            Form.NUMBER: self._numbers,
            Form.DIGITS: lambda cells: self._by_difference(cells, canonical_number, _PLAIN),
            Form.FLOAT: self._floats,
            Form.TEXT: self._texts,
            Form.MOMENT: self._moments,
            Form.ZONED: self._moments,
            Form.FINE_MOMENT: lambda cells: self._by_difference(cells, self._fine),
            Form.DAYS: lambda cells: self._by_difference(cells, self._interval),
            Form.MONTHS: lambda cells: self._by_difference(cells, canonical_months),
            Form.BYTES: self._bytes,
            Form.ROWID: lambda cells: self._utf8(cells.binary()),
            Form.LOB: lambda cells: pa.nulls(len(cells), column.type.arrow),
        }
        self._way = ways[value_type.form]

    def convert(self, cells: Cells) -> pa.Array:
        """ValueDoesNotFit; EventUndecodable for a literal of another type."""
        self.bad = None
        odd = self._odd_kinds[cells.kinds]
        if odd.any():
            raise self._wrong(cells, int(np.flatnonzero(odd)[0]))
        return self._way(cells)

    def _wrong(self, cells: Cells, row: int) -> TableError:
        column, kind = self._column, int(cells.kinds[row])
        if kind == r.UNSUPPORTED:
            message = f"LogMiner does not show values of column {column.name} ({column.source_type})."
            return EventUndecodable(message, column=column.name, remedy="Exclude the column from the replicator.")
        message = f"Column {column.name} ({column.source_type}) has a literal of another type in SQL_REDO."
        return EventUndecodable(message, column=column.name)

    def _misfit(self, text: str, remedy: str | None = None) -> TableError:
        column, shown = self._column, text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
        message = f"Column {column.name}: {shown!r} is not a valid value of {column.type} ({column.source_type})."
        return ValueDoesNotFit(message, remedy=remedy, column=column.name)

    def _utf8(self, array: pa.Array) -> pa.Array:
        try:
            return array.cast(pa.string())  # holds bytes against UTF-8
        except pa.ArrowInvalid:
            column = self._column
            message = f"Column {column.name} ({column.source_type}) contains text that is not valid Unicode."
            raise ValueDoesNotFit(message, column=column.name) from None

    def _numbers(self, cells: Cells) -> pa.Array:
        text = self._utf8(cells.binary())
        try:
            return text.cast(self._column.type.arrow)
        except pa.ArrowInvalid:
            exact = self._by_difference(cells, canonical_number, _PLAIN)
        try:
            return exact.cast(self._column.type.arrow)
        except pa.ArrowInvalid as error:
            raise self._misfit(str(error)) from None

    def _floats(self, cells: Cells) -> pa.Array:
        text = self._utf8(cells.binary())
        try:
            return text.cast(self._column.type.arrow)
        except pa.ArrowInvalid:
            plain = self._by_difference(cells, lambda one: _FLOATS.get(one.strip().lower(), one.strip()))
        try:
            return plain.cast(self._column.type.arrow)
        except pa.ArrowInvalid as error:
            raise self._misfit(str(error)) from None

    def _texts(self, cells: Cells) -> pa.Array:
        special = (cells.kinds == r.UNISTR) | (cells.kinds == r.JOINED)
        if not special.any():
            return self._utf8(cells.binary())
        rows = np.flatnonzero(special)
        try:
            values = [joined(cells.value(row), int(cells.kinds[row])) for row in rows.tolist()]
        except (ValueError, UnicodeError):
            raise self._wrong(cells, int(rows[0])) from None
        kinds = np.where(special, r.NULL, cells.kinds)
        plain = self._utf8(Cells(cells.data, cells.places, cells.sizes, kinds).binary())
        return pc.replace_with_mask(plain, pa.array(special), pa.array(values, pa.string()))

    def _bytes(self, cells: Cells) -> pa.Array:
        try:
            return cells.unhexed()
        except ValueError as error:
            raise self._misfit(cells.value(error.args[0]).decode("utf-8", "replace")) from None

    def _moments(self, cells: Cells) -> pa.Array:
        count = len(cells)
        out, valid, odd = np.empty(count, np.int64), _bits(count), np.empty(count, np.bool_)
        zoned = self._form is Form.ZONED
        if zoned and (cells.kinds == r.MOMENT).any():  # WITH LOCAL TIME ZONE: the session's zone, which is UTC
            cells = self._with_zone(cells)
        nulls, odds = v.moments(cells.data, cells.places, cells.sizes, cells.kinds, zoned, out, valid, odd)
        if odds:
            self.bad = odd
            for row in np.flatnonzero(odd).tolist():
                text = cells.value(row).decode("utf-8", "replace")
                found = _MOMENT.fullmatch(text)
                before = found is not None and (found[1] == "-" or not int(found[2]))
                if not before or self._zero_dates != "null":
                    raise self._misfit(text, DATE_REMEDY if before else None)
        kind = self._column.type.arrow
        return pa.Array.from_buffers(
            kind, count, [pa.py_buffer(valid) if nulls or odds else None, pa.py_buffer(out)], nulls + odds
        )

    @staticmethod
    def _with_zone(cells: Cells) -> Cells:
        zone = pa.scalar(b" +00:00", pa.binary())
        unzoned = pa.array(cells.kinds == r.MOMENT)
        texts = cells.binary()
        return printed_cells(
            pc.if_else(unzoned, pc.binary_join_element_wise(texts, zone, pa.scalar(b"", pa.binary())), texts), r.ZONED
        )

    def _fine(self, text: str) -> str:
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError(text)
        sign, year, month, day, clock, fraction, zone = found.groups()
        digits = (fraction or "").ljust(9, "0")
        if digits[self._digits :].strip("0"):
            raise ValueError(text)
        end = f".{digits[: self._digits]}" if self._digits else ""
        start = f"{'-' if sign == '-' else ''}{int(year):04}-{month}-{day}"
        return f"{start} {clock}{end}{f' {zone}' if zone and not self._local else ''}"

    def _interval(self, text: str) -> str:
        return canonical_days(text, self._digits)

    def _by_difference(self, cells: Cells, one: Callable[[str], str], plain: str = "") -> pa.Array:
        """Each different text once; none where all are written as `plain` is."""
        texts = self._utf8(cells.binary())
        if plain and pc.all(pc.match_substring_regex(texts, plain)).as_py() is not False:
            return texts
        found = texts.dictionary_encode()
        made: list[str] = []
        for text in found.dictionary.to_pylist():
            try:
                made.append(one(text))
            except (ValueError, ArithmeticError):
                raise self._misfit(text) from None
        return pa.array(made, pa.string()).take(found.indices)


def canonical_number(text: str) -> str:
    """Without exponent, without zeros that say nothing: `.50` → `0.5`, `1E3` → `1000`.  ValueError."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite() or abs(number.adjusted()) > 200:  # noqa: PLR2004 - a NUMBER has less than 130
        raise ValueError(text)
    plain = format(number, "f")
    if "." in plain:
        plain = plain.rstrip("0").removesuffix(".")
    return "0" if not number else plain


def canonical_days(text: str, digits: int) -> str:
    """`+D HH:MI:SS.FF`, days of two digits at least.  ValueError."""
    found = _DAYS.fullmatch(text)
    if found is None:
        raise ValueError(text)
    sign, days, hour, minute, second, fraction = found.groups()
    fine = (fraction or "").ljust(9, "0")
    if fine[digits:].strip("0"):
        raise ValueError(text)
    end = f".{fine[:digits]}" if digits else ""
    return f"{sign or '+'}{int(days):02} {hour}:{minute}:{second}{end}"


def canonical_months(text: str) -> str:
    """`+Y-MM`, years of two digits at least.  ValueError."""
    found = _MONTHS.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return f"{found[1] or '+'}{int(found[2]):02}-{int(found[3]):02}"


def joined(text: bytes, kind: int) -> str:
    """A UNISTR's argument, or texts and UNISTRs joined by ||.  ValueError, UnicodeError."""
    written = text.decode()
    if kind == r.UNISTR:
        return unescaped(written.replace("''", "'"))
    at, parts = 0, []
    while at < len(written):
        found = _PIECE.match(written, at)
        if found is None:
            raise ValueError(written)
        plain = found[2].replace("''", "'")
        parts.append(unescaped(plain) if found[1] else plain)
        at = found.end()
    return "".join(parts)


def unescaped(text: str) -> str:
    r"""UNISTR's own escapes: `\00e9`, of UTF-16, and `\\`.  UnicodeError for half of a pair."""
    plain = _ESCAPE.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1], 16)), text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _bits(count: int) -> Bytes:
    return np.zeros((count + 7) // 8, np.uint8)


def _array(kind: pa.DataType, count: int, nulls: int, valid: Bytes, *buffers: npt.NDArray[Any]) -> pa.Array:
    parts: Sequence[Any] = [pa.py_buffer(valid) if nulls else None, *map(pa.py_buffer, buffers)]
    return pa.Array.from_buffers(kind, count, parts, nulls)


def is_local(column: Column) -> bool:
    """WITH LOCAL TIME ZONE: texts are in the session's zone, which is UTC."""
    return "LOCAL" in column.source_type
