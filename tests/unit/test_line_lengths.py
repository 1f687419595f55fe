"""What ruff does not read has lines of at most 120 characters, too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from webapp.settings import BASE_DIR as ROOT

MOST = 120
FILES = {
    "templates": ["templates/**/*.html"],
    "styles and scripts": ["static/css/*.css", "static/js/*.js"],
    "documents": ["*.md", "docs/**/*.md", "replicator/**/*.md"],
}
# No line break can be in these: a template tag, a row of a table, a word.
UNBROKEN = re.compile(r"\s*(\{%(?:(?!%\}).)*%\}|\|.*|\S*)")
FENCE = "```"


def lines(file: Path) -> Iterator[tuple[int, str]]:
    """Without blocks of code in documents: commands are copied as they are."""
    code = False
    for number, line in enumerate(file.read_text().splitlines(), 1):
        code ^= file.suffix == ".md" and line.lstrip().startswith(FENCE)
        if not code:
            yield number, line


@pytest.mark.parametrize("kind", FILES)
def test_lines_are_short(kind: str) -> None:
    files = [file for pattern in FILES[kind] for file in Path(ROOT).glob(pattern)]
    assert files
    long = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        for number, line in lines(file)
        if len(line) > MOST and not UNBROKEN.fullmatch(line)
    ]
    assert long == []
