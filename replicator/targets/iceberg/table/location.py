"""Where a table's files lie."""

from __future__ import annotations

import re
import uuid

from replicator.targets.base import TargetTable

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
SLUG = 40


def location(warehouse: str, table: TargetTable) -> str:
    """A folder of the table's own: readable, of safe characters, and never used before.

    The random part keeps apart what differs in case only, what was renamed away, and an older table of the same name.
    """
    folder = f"{_slug(table.namespace)}/{_slug(table.name)}-{uuid.uuid4().hex[:12]}"
    return f"{warehouse.rstrip('/')}/{folder}"


def location_beside(default: str, table: TargetTable) -> str:
    """Return a folder like `location`'s, beside the one that the catalog would choose for the table.

    Readers take a name such as `#t` for a part of an address.
    """
    place, names = default.rstrip("/"), list[str]()
    for name in (table.name, table.namespace):
        above, _, last = place.rpartition("/")
        if last != name:
            break
        place, names = above, [_slug(name), *names]
    return f"{'/'.join([place, *names])}-{uuid.uuid4().hex[:12]}"


def _slug(name: str) -> str:
    return _UNSAFE.sub("_", name)[:SLUG].strip("_") or "table"
