"""Connections to the file, and its errors in the words of the port."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from replicator.errors import SourceBusy, SourceError, SourceUnreachable, TableDisappeared, TidemarkError
from replicator.faults import reach
from tests.plugins.sqlite_log.config import SqliteConfig


def connect(config: SqliteConfig) -> sqlite3.Connection:
    """In autocommit; any thread may interrupt it.  SourceUnreachable where there is no such file."""
    reach("source.connect.before")
    with translated(str(config.file)):
        connection = sqlite3.connect(
            f"file:{config.file}?mode=rw", uri=True, timeout=config.lock_seconds, isolation_level=None,
            check_same_thread=False,
        )  # fmt: skip
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    return connection


@contextmanager
def translated(where: str) -> Iterator[None]:
    """`where`: the file, or a table."""
    try:
        yield
    except sqlite3.Error as error:
        raise _told(error, where) from None


def _told(error: sqlite3.Error, where: str) -> TidemarkError:
    text = str(error)
    if "unable to open" in text or "not a database" in text or "closed database" in text:
        return SourceUnreachable(f"{where}: {text}.", remedy="Check that the file exists and is a SQLite database.")
    if "no such table" in text:
        return TableDisappeared(f"{where} no longer exists.", table=where)
    if "locked" in text:
        return SourceBusy(f"{where}: {text}.")
    found = SourceError(f"{where}: {text}.")
    found.answered = "interrupted" not in text
    return found
