"""Scripts that were written for psql, without psql."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# The database is there already; a command of psql is one line.
COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
LEFT_OUT = re.compile(r"(CREATE|DROP) DATABASE\b[^;]*;")


def pieces(script: Path) -> Iterator[str]:
    """Texts of whole statements, each to be run at once, in the script's order; what it includes (`\\i`) stands in its
    place.

    Other commands of psql (`\\echo`, `\\c`), and making the database, are left out.
    """
    piece: list[str] = []
    for line in script.read_text().splitlines(keepends=True):
        if not line.startswith("\\"):
            piece.append("" if LEFT_OUT.match(line) else line)
            continue
        yield from _meant(piece)
        piece = []
        command, _, argument = line.strip().partition(" ")
        if command in {r"\i", r"\ir"}:
            yield from pieces(script.parent / argument)
    yield from _meant(piece)


def _meant(piece: list[str]) -> Iterator[str]:
    """An empty query is an error."""
    text = "".join(piece)
    if COMMENT.sub("", text).strip():
        yield text
