"""SQL text that means the same in every sql_mode and in every character set that can spell it."""

from __future__ import annotations

import random
from collections.abc import Sequence

_PYTHON_CODECS = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "koi8r": "koi8-r", "binary": "ascii"}
_CONTROL = " "


class Pen(random.Random):
    """Chance, and the character set in which the statement will be sent."""

    charset = "utf8mb4"

    def chance(self, probability: float) -> bool:
        """True so often."""
        return self.random() < probability

    def some(self, things: Sequence[str], most: int) -> list[str]:
        """One to `most` of them, in their order."""
        count = self.randint(1, max(1, min(most, len(things))))
        return [things[at] for at in sorted(self.sample(range(len(things)), min(count, len(things))))]


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def names(items: Sequence[str]) -> str:
    """Identifiers in a list."""
    return ", ".join(quoted(item) for item in items)


def spells(charset: str, value: str) -> bool:
    """Can the value stand in a statement of this character set, between quotes, whatever the sql_mode?"""
    if "\\" in value or any(char < _CONTROL for char in value):
        return False
    if charset == "utf8mb3" and any(ord(char) > 0xFFFF for char in value):  # noqa: PLR2004
        return False
    try:
        value.encode(_PYTHON_CODECS.get(charset, charset))
    except UnicodeEncodeError:
        return False
    return True


def plain(value: str) -> str:
    """Between quotes; the value must be one that the session `spells`."""
    return "'" + value.replace("'", "''") + "'"


def text(value: str, pen: Pen) -> str:
    """A string literal, as it is or in hexadecimal."""
    if spells(pen.charset, value) and (value.isascii() or pen.chance(0.5)):
        return plain(value)
    return f"_utf8mb4 X'{value.encode().hex()}'"


def binary(value: bytes) -> str:
    """A byte string."""
    return f"X'{value.hex()}'"


def numbers(count: int, pen: Pen, dialect: str) -> str:
    """A FROM clause whose column `n` runs from 0 to `count` - 1."""
    if dialect == "mariadb" and pen.chance(0.5):
        return f"(SELECT CAST(seq AS SIGNED) AS n FROM seq_0_to_{count - 1}) AS numbers"
    digits = " UNION ALL ".join(f"SELECT {digit}{' AS d' if digit == 0 else ''}" for digit in range(10))
    places = range(len(str(count - 1)))
    value = " + ".join(f"d{place}.d * {10**place}" for place in places)
    tables = " CROSS JOIN ".join(f"({digits}) AS d{place}" for place in places)
    return f"(SELECT {value} AS n FROM {tables} HAVING n < {count}) AS numbers"
