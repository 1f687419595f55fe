"""SQL text that means the same in every sql_mode and in every character set that can spell it."""

from __future__ import annotations

from collections.abc import Sequence

from testing.workload.rng_literals import Pen, plain, spells


def quoted(name: str) -> str:
    """An identifier."""
    return "`" + name.replace("`", "``") + "`"


def names(items: Sequence[str]) -> str:
    """Identifiers in a list."""
    return ", ".join(quoted(item) for item in items)


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
