"""docs/types.md: what each source's types become.

`python -m replicator.sources.type_table > docs/types.md` makes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from replicator.sources.mysql import types as mysql
from replicator.sources.postgres import types as postgres

SECTIONS: tuple[Callable[[], str], ...] = (mysql.type_document, postgres.type_document)


def document() -> str:
    """The whole of docs/types.md."""
    head = "# Types\n\nMade from the code: `python -m replicator.sources.type_table > docs/types.md`.\n"
    return "\n".join([head, *(section() for section in SECTIONS)])


if __name__ == "__main__":
    sys.stdout.write(document())
