"""What a connection to a SQLite file is made of, and the form that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import number, text

LOCK_SECONDS = 10


@dataclass(frozen=True)
class SqliteConfig:
    """`lock_seconds`: how long a mark waits for another writer."""

    file: Path
    lock_seconds: int = LOCK_SECONDS

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> SqliteConfig:
        """ConfigurationError names the field that is wrong."""
        file = Path(text(settings, "file"))
        if not file.is_absolute():
            raise ConfigurationError("File is not an absolute path.")
        return cls(file, number(settings, "lock_seconds", 1, 300) or LOCK_SECONDS)


FORM = (
    FormField("file", "File", help="Path of the database file on the worker's machine."),
    FormField("lock_seconds", "Lock timeout (s)", kind="number", required=False, default=str(LOCK_SECONDS)),
)
