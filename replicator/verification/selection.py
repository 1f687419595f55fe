"""Which of the source's tables a selection means; written from docs/selection.md and not the pipeline.

What a replicator does not know of, no comparison of its tables would miss.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Self

from replicator.verification.source import OpenReader

Name = tuple[str, str]


@dataclass(frozen=True)
class SelectionLine:
    """A table, a whole database (`table` empty) or a pattern, taken or left out.

    names: of a database or pattern that takes no later tables, those that it means.
    """

    database: str
    table: str = ""
    excluded: bool = False
    pattern: bool = False
    names: Collection[str] | None = None

    @property
    def wide(self) -> bool:
        """Not a single table."""
        return self.pattern or not self.table

    def folded(self) -> Self:
        """In small letters."""
        names = None if self.names is None else {name.lower() for name in self.names}
        return replace(self, database=self.database.lower(), table=self.table.lower(), names=names)

    def means(self, name: Name) -> bool:
        """Is it one of this line's tables?"""
        if name[0] != self.database or (self.names is not None and name[1] not in self.names):
            return False
        if not self.pattern:
            return self.table in {"", name[1]}
        wild = {"*": ".*", "?": "."}
        expression = "".join(wild.get(one) or re.escape(one) for one in self.table)
        return re.fullmatch(expression, name[1], re.DOTALL) is not None


def absent_tables(
    source: OpenReader, lines: Sequence[SelectionLine], known: Collection[Name], hidden: Collection[str] = ()
) -> list[Name]:
    """Return the source's tables that the lines take and that are not `known`, sorted, without the databases `hidden`.

    Raises SourceUnreachable, SourceError.
    """
    with closing(source()) as reader:
        found, folded = reader.tables(), reader.folds_names()
    if folded:
        lines, known, hidden = (
            [line.folded() for line in lines],
            {_folded(name) for name in known},
            {*map(str.lower, hidden)},
        )
    compared = [_folded(name) if folded else name for name in found]
    return sorted(
        name
        for name, one in zip(found, compared, strict=True)
        if one not in known and one[0] not in hidden and _taken(one, lines)
    )


def _folded(name: Name) -> Name:
    return name[0].lower(), name[1].lower()


def _taken(name: Name, lines: Sequence[SelectionLine]) -> bool:
    """A single table's line goes before all others, and one that leaves out before one that takes."""
    meant = [line for line in lines if line.means(name)]
    single = [line for line in meant if not line.wide]
    return bool(meant) and not any(line.excluded for line in single or meant)
