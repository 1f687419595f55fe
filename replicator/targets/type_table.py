"""docs/types.md: what each source's types become, and what each target makes of that.

`python -m replicator.targets.type_table > docs/types.md` makes it.
"""

from __future__ import annotations

import sys
import textwrap

from replicator.model.types import DataType, Kind, decimal
from replicator.sources.kind import SourceKind
from replicator.sources.registry import KINDS as SOURCES
from replicator.targets.registry import KINDS as TARGETS

WIDTH = 120  # characters of a line that is not a row of a table
TYPES = tuple(decimal(38, 10) if kind is Kind.DECIMAL else DataType(kind) for kind in Kind)


def document() -> str:
    """The whole of docs/types.md."""
    head = "# Types\n\nMade from the code: `python -m replicator.targets.type_table > docs/types.md`.\n"
    parts = [head, *(_source(one) for one in SOURCES.values() if one.type_document), _targets()]
    return "".join(f"{_wrapped(line)}\n" for line in "\n".join(parts).splitlines())


def _wrapped(line: str) -> str:
    if line.startswith(("|", "#")):
        return line
    hang = "  " if line.startswith("* ") else ""
    return textwrap.fill(line, WIDTH, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False)


def _source(kind: SourceKind) -> str:
    """Its part, whose heading has the label of one that is not proven, with what there is of proof below."""
    assert kind.type_document is not None
    text = kind.type_document()
    if not kind.proof:
        return text
    heading, _, rest = text.partition("\n")
    return f"{heading} ({kind.label.lower()})\n\n{kind.proof}\n{rest}"


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
