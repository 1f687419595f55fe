"""A slow reader of SQL_REDO, by nothing of the product's: what a statement says, character by character.

Grammar: Oracle Database SQL Language Reference, "INSERT", "UPDATE", "DELETE", "Literals", "UNISTR", "HEXTORAW"
(https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Literals.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

_TOKEN = re.compile(
    r"""[ \t-\r]+|(?P<name>"(?:[^"]|"")*")|(?P<text>'(?:[^']|'')*')|(?P<number>(?:[0-9+\-]|\.[0-9])[0-9+\-.eE]*)"""
    r"""|(?P<word>[A-Za-z_\#][A-Za-z0-9_\#]*)|(?P<sign>\|\||[(),;=.])""",
    re.DOTALL,
)
_MOMENT = re.compile(r"\s*([+-]?)(\d{1,4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?: ([+-])(\d\d):(\d\d))?\s*")
_DAYS = re.compile(r"\s*([+-]?)(\d+) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?\s*")
_MONTHS = re.compile(r"\s*([+-]?)(\d+)-(\d+)\s*")
_FLOATS = {"nan": "nan", "inf": "inf", "-inf": "-inf", "infinity": "inf", "-infinity": "-inf"}


@dataclass(frozen=True)
class Literal:
    """function: in upper case, empty where there is none; text: None for NULL and large objects."""

    function: str
    text: str | None


class NotWritten(ValueError):
    """Not a statement that LogMiner writes."""


class Reader:
    """One statement's."""

    def __init__(self, statement: bytes) -> None:
        text, at = statement.decode("utf-8", "surrogateescape"), 0
        self._tokens: list[tuple[str, str]] = []
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise NotWritten(text[at:])
            if found.lastgroup:
                word = found[found.lastgroup]
                self._tokens.append((found.lastgroup, word.lower() if found.lastgroup == "word" else word))
            at = found.end()
        while self._tokens and self._tokens[-1][1] == ";":
            self._tokens.pop()
        self._at = 0

    def read(self) -> tuple[dict[str, Literal], dict[str, Literal]]:
        """(values before, values after); an UPDATE's after are those of SET over those of WHERE."""
        if self._takes("insert"):
            self._needs("into")
            self._table()
            names, after = self._listed(self._name), dict[str, Literal]()
            self._needs("values")
            for name, one in zip(names, self._listed(self._expression), strict=True):
                self._put(after, name, one)
            return self._ended({}, after)
        if self._takes("delete"):
            self._needs("from")
            self._table()
            return self._ended(self._where(), {})
        self._needs("update")
        self._table()
        self._needs("set")
        changed: dict[str, Literal] = {}
        while True:
            name = self._name()
            self._needs("=")
            self._put(changed, name, self._expression())
            if not self._takes(","):
                break
        before = self._where() if self._at < len(self._tokens) else {}
        return self._ended(before, {**before, **changed})

    def _ended(self, *found: dict[str, Literal]) -> Any:
        if self._at != len(self._tokens):
            raise NotWritten(self._tokens[self._at])
        return found

    @staticmethod
    def _put(into: dict[str, Literal], name: str, one: Literal) -> None:
        if name in into:
            raise NotWritten(name)
        into[name] = one

    def _next(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            return "", ""
        self._at += 1
        return self._tokens[self._at - 1]

    def _takes(self, word: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at] in (("word", word), ("sign", word)):
            self._at += 1
            return True
        return False

    def _needs(self, word: str) -> None:
        if not self._takes(word):
            raise NotWritten(word)

    def _name(self) -> str:
        kind, text = self._next()
        if kind != "name":
            raise NotWritten(text)
        return text[1:-1].replace('""', '"')

    def _table(self) -> None:
        self._name()
        self._needs(".")
        self._name()

    def _listed(self, one: Callable[[], Any]) -> list[Any]:
        self._needs("(")
        found = [one()]
        while self._takes(","):
            found.append(one())
        self._needs(")")
        return found

    def _where(self) -> dict[str, Literal]:
        self._needs("where")
        found: dict[str, Literal] = {}
        while True:
            if self._takes("rowid"):
                self._needs("=")
                self._expression()
            else:
                name = self._name()
                if self._takes("="):
                    self._put(found, name, self._expression())
                else:
                    self._needs("is")
                    self._needs("null")
                    self._put(found, name, Literal("", None))
            if not self._takes("and"):
                return found

    def _expression(self) -> Literal:
        """Literals with || between are one text."""
        first = self._literal()
        while self._takes("||"):
            second = self._literal()
            first = Literal("", "".join(map(str, map(_plain, (first, second)))))
        return first

    def _literal(self) -> Literal:
        kind, text = self._next()
        if kind == "text":
            return Literal("", text[1:-1].replace("''", "'"))
        if kind == "number":
            return Literal("", text)
        if kind != "word":
            raise NotWritten(text)
        if text == "null":
            return Literal("", None)
        self._needs("(")
        if self._takes(")"):
            return Literal(text.upper(), None)
        arguments = list(self._arguments())
        return Literal(text.upper(), arguments[0])

    def _arguments(self) -> Iterator[str]:
        while True:
            kind, text = self._next()
            if kind != "text":
                raise NotWritten(text)
            yield text[1:-1].replace("''", "'")
            if self._takes(")"):
                return
            self._needs(",")


def _plain(one: Literal) -> str | None:
    """Of a text."""
    if one.function != "UNISTR" or one.text is None:
        return one.text
    units, at = bytearray(), 0
    while at < len(one.text):
        if one.text[at] == "\\" and one.text[at + 1 : at + 2] == "\\":
            units += "\\".encode("utf-16-be")
            at += 2
        elif one.text[at] == "\\" and re.fullmatch(r"[0-9A-Fa-f]{4}", one.text[at + 1 : at + 5]):
            units += bytes.fromhex(one.text[at + 1 : at + 5])
            at += 5
        else:
            units += one.text[at].encode("utf-16-be")
            at += 1
    return units.decode("utf-16-be")


def value(data_type: str, one: Literal) -> Any:  # noqa: PLR0911 - a type each
    """What the literal is to a column of ALL_TAB_COLS.DATA_TYPE; None also for moments before the year 1."""
    if one.text is None:
        return None
    text = one.text
    match data_type:
        case "CHAR" | "NCHAR" | "VARCHAR2" | "NVARCHAR2" | "ROWID":
            return _plain(one)
        case "NUMBER":
            return Decimal(text.strip())
        case "BINARY_DOUBLE":
            return float(_FLOATS.get(text.strip().lower(), text.strip()))
        case "BINARY_FLOAT":
            return float(np.float32(_FLOATS.get(text.strip().lower(), text.strip())))
        case "RAW":
            return bytes.fromhex(text)
        case "INTERVAL DAY(2) TO SECOND(6)":
            sign, days, *clock, fraction = _found(_DAYS, text)
            return f"{sign or '+'}{int(days):02} {':'.join(clock)}.{(fraction or '').ljust(6, '0')[:6]}"
        case "INTERVAL YEAR(2) TO MONTH":
            sign, years, months = _found(_MONTHS, text)
            return f"{sign or '+'}{int(years):02}-{int(months):02}"
    sign, year, month, day, hour, minute, second, fraction, east, hours, minutes = _found(_MOMENT, text)
    digits = (fraction or "").ljust(9, "0")
    if data_type == "TIMESTAMP(9)":
        zone = f" {east}{hours}:{minutes}" if east else ""
        return f"{'-' if sign == '-' else ''}{int(year):04}-{month}-{day} {hour}:{minute}:{second}.{digits[:9]}{zone}"
    if sign == "-" or not int(year):
        return None
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), int(digits[:6]), UTC)
    if east:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        moment += offset if east == "-" else -offset
    return moment if "ZONE" in data_type else moment.replace(tzinfo=None)


def _found(pattern: re.Pattern[str], text: str) -> tuple[Any, ...]:
    found = pattern.fullmatch(text)
    if found is None:
        raise NotWritten(text)
    return found.groups()
