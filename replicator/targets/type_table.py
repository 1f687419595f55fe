"""docs/types.md: what each source's types become, and what each target makes of that.

`python -m replicator.targets.type_table > docs/types.md` makes it.
"""

from __future__ import annotations

import sys

from replicator.model.types import DataType, Kind, decimal
from replicator.sources.registry import KINDS as SOURCES
from replicator.targets.registry import KINDS as TARGETS

TYPES = tuple(decimal(38, 10) if kind is Kind.DECIMAL else DataType(kind) for kind in Kind)


def document() -> str:
    """The whole of docs/types.md."""
    head = "# Types\n\nMade from the code: `python -m replicator.targets.type_table > docs/types.md`.\n"
    return "\n".join([head, *(one.type_document() for one in SOURCES.values() if one.type_document), _targets()])


def _targets() -> str:
    titles, lines = " | ".join(one.title for one in TARGETS.values()), "|---" * (len(TARGETS) + 1)
    rows = "".join(
        f"| `{kind}` | {' | '.join(f'`{one.type_name(kind)}`' for one in TARGETS.values())} |\n" for kind in TYPES
    )
    notes = {
        f"* {one.title}, `{kind}`: {said.note}\n"
        for one in TARGETS.values()
        for kind in TYPES
        if (said := one.types(kind)).note
    }
    return f"## Targets\n\n| Tidemark | {titles} |\n{lines}|\n{rows}\n{''.join(sorted(notes))}"


if __name__ == "__main__":
    sys.stdout.write(document())
