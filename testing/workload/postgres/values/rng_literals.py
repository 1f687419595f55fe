"""SQL text that means the same in every session."""

from __future__ import annotations

from collections.abc import Sequence

from testing.workload.rng_literals import Pen, plain, spells

_CONTROL, _ASCII, _BASIC = 0x20, 0x7F, 0xFFFF


def quoted(name: str) -> str:
    """An identifier."""
    return '"' + name.replace('"', '""') + '"'


def names(items: Sequence[str]) -> str:
    """Identifiers in a list."""
    return ", ".join(quoted(item) for item in items)


def text(value: str, pen: Pen) -> str:
    """A string literal, as it is or with escapes."""
    if spells(pen.charset, value) and (value.isascii() or pen.chance(0.5)):
        return plain(value)
    return "E'" + "".join(_escaped(char) for char in value) + "'"


def _escaped(char: str) -> str:
    code = ord(char)
    if char in "\\'":  # doubled: \' is refused where the client's charset has backslashes in its letters
        return char * 2
    if _CONTROL <= code < _ASCII:
        return char
    return f"\\u{code:04x}" if code <= _BASIC else f"\\U{code:08x}"
