"""Scripts that were written for psql, without psql."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

# The database is there already; a command of psql is one line.
LEFT_OUT = re.compile(r"(CREATE|DROP) DATABASE\b[^;]*;")


def pieces(script: Path) -> Iterator[str]:
    """Texts of whole statements, each to be run at once, in the place where the script includes it (`\\i`).

    Other commands of psql (`\\echo`, `\\c`), and making the database, are left out.
    """
    piece: list[str] = []
    for line in script.read_text().splitlines(keepends=True):
        if not line.startswith("\\"):
            piece.append("" if LEFT_OUT.match(line) else line)
            continue
        yield "".join(piece)
        piece = []
        command, _, argument = line.strip().partition(" ")
        if command in {r"\i", r"\ir"}:
            yield from pieces(script.parent / argument)
    yield "".join(piece)
