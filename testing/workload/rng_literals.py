"""Chance, and what all dialects spell alike."""

from __future__ import annotations

import random
from collections.abc import Sequence

CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252", "koi8r": "koi8-r", "binary": "ascii",
    "LATIN1": "latin-1",
    "WIN1251": "cp1251", "KOI8R": "koi8-r", "SJIS": "shift_jis", "EUC_JP": "euc_jp",
}  # fmt: skip
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


def spells(charset: str, value: str) -> bool:
    """Can a statement in this character set quote the value, under any settings of the session?"""
    if "\\" in value or any(char < _CONTROL for char in value):
        return False
    if charset == "utf8mb3" and any(ord(char) > 0xFFFF for char in value):  # noqa: PLR2004
        return False
    try:
        value.encode(CODECS.get(charset, charset))
    except UnicodeEncodeError:
        return False
    return True


def plain(value: str) -> str:
    """Between quotes; the value must be one that the session `spells`."""
    return "'" + value.replace("'", "''") + "'"
