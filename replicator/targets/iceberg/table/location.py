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


def _slug(name: str) -> str:
    return _UNSAFE.sub("_", name)[:SLUG].strip("_") or "table"
