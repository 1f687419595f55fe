"""Names in a target: what is allowed there, and what a name that is not becomes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_NAME_LENGTH = 255  # what the columns of the metadata database hold


def digest(text: str) -> str:
    """Eight hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True)
class IdentifierPolicy:
    """The rules for names of one kind of target, by which all of Tidemark's names in it are made.

    max_length: characters of a namespace or a table's name; max_bytes: of it in UTF-8 (0: any);
    illegal: a character class of what is replaced by `_`;
    fold: names with one result are one name to the target; reserved: folded names that no table can have.
    """

    max_length: int = MAX_NAME_LENGTH
    max_bytes: int = 0
    illegal: str = ""
    fold: Callable[[str], str] = str
    reserved: frozenset[str] = frozenset()

    def legal(self, wanted: str) -> str:
        """Return `wanted` where the target accepts it unchanged; else a legal name that ends with its digest.

        So different names of the source are different names of the target, regardless of earlier and later names.
        """
        plain = re.sub(self.illegal, "_", wanted) if self.illegal else wanted
        plain = self._cut(self.fold(plain))
        if plain == wanted and plain not in self.reserved:
            return plain
        end = f"_{digest(wanted)}"
        return self._cut(plain, len(end)) + end

    def _cut(self, name: str, room: int = 0) -> str:
        """Shorten `name`, with room for `room` more characters of one byte."""
        name = name[: self.max_length - room]
        return name.encode()[: self.max_bytes - room].decode(errors="ignore") if self.max_bytes else name

    def refusal(self, name: str) -> str:
        """Why a name that a user has chosen cannot be; empty where it can."""
        if not name or len(name) > self.max_length or not name.isprintable():
            return f"must be a string of 1 to {self.max_length} characters"
        if self.max_bytes and len(name.encode()) > self.max_bytes:
            return f"must have at most {self.max_bytes} bytes"
        if self.illegal and (found := re.search(self.illegal, name)):
            return f"cannot contain {found[0]!r}"
        if self.fold(name) != name:
            return f"must be written {self.fold(name)}"
        return "is a reserved word of the target" if name in self.reserved else ""
