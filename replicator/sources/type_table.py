"""docs/types.md: what each source's types become.

`python -m replicator.sources.type_table > docs/types.md` makes it.
"""

from __future__ import annotations

import sys

from replicator.sources.registry import KINDS


def document() -> str:
    """The whole of docs/types.md."""
    head = "# Types\n\nMade from the code: `python -m replicator.sources.type_table > docs/types.md`.\n"
    return "\n".join([head, *(kind.type_document() for kind in KINDS.values() if kind.type_document)])


if __name__ == "__main__":
    sys.stdout.write(document())
