"""Safe folder names for tables of any name."""

from __future__ import annotations

import hashlib
import re

from replicator.model.identifiers import TableId

_UNSAFE = re.compile(r"[^a-z0-9_]+")


def folder_name(table: TableId) -> str:
    """Readable, unique (case and unicode included), safe on every file system and in every URI."""
    readable = _UNSAFE.sub("-", f"{table.database}.{table.name}".lower())[:60].strip("-")
    digest = hashlib.blake2b(f"{table.database}\0{table.name}".encode(), digest_size=5).hexdigest()
    return f"{readable}-{digest}"
