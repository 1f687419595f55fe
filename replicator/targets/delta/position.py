"""How far a table is, read from the table itself (invariant 3): recorded twice by the commit that has the rows.

`commitInfo` of the log's newest entry is read at once.  `txn` actions record the same and outlive the log's entries:
every checkpoint has them, regardless of the program that writes it.  They hold a text as numbers of seven bytes each.
They lack only `item`, which matters right after a worker has died.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from replicator.errors import TargetError
from replicator.model.mode import Mode
from replicator.targets.base import Position

SAID = "tidemark"  # in commitInfo
SAME_ROWS = "tidemarkSameRows"  # there, too: of a compaction
PREFIX = "tidemark."
APPLIED, LOADED, VERSION, MODE, LOAD, DROPPED = (
    f"{PREFIX}{name}" for name in ("applied", "loaded", "schema-version", "mode", "load", "dropped")
)
MODES = tuple(Mode)  # their numbers; only ever appended to
TEXT_BYTES = 7
MAX_TEXT = 64  # bytes of a load's name
ENTRIES = 50  # of the log that are looked at


def as_numbers(at: Position, dropped: int) -> dict[str, int]:
    """Application ids of `txn` actions and their versions.  dropped: seconds since 1970 when its files may go, or 0."""
    load = at.load.encode()
    if len(load) > MAX_TEXT:
        raise AssertionError(at.load)
    parts = {
        f"{LOAD}.{place}": int.from_bytes(load[place * TEXT_BYTES : (place + 1) * TEXT_BYTES], "big")
        for place in range(-(-len(load) // TEXT_BYTES))
    }
    own = {APPLIED: at.applied, LOADED: at.loaded, VERSION: at.schema_version, MODE: MODES.index(at.mode)}
    return {**own, DROPPED: dropped, LOAD: len(load), **parts}


def as_text(at: Position, dropped: int, token: str) -> dict[str, str]:
    """What `commitInfo` has.  token: of the commit."""
    said = {
        "applied": at.applied, "loaded": at.loaded, "schema_version": at.schema_version, "load": at.load,
        "mode": at.mode.value, "item": at.item, "dropped": dropped, "token": token,
    }  # fmt: skip
    return {SAID: json.dumps(said)}


def token(entry: Mapping[str, Any]) -> str:
    """Of the commit that wrote this entry of the log; empty for another program's."""
    return str(json.loads(entry[SAID])["token"]) if SAID in entry else ""


Said = tuple[Position, int]


def read(entries: Sequence[Mapping[str, Any]], number: Callable[[str], int | None], table: str) -> Said | None:
    """The position, and when the table's files may go (0: it is not dropped); None for a table that has none.

    entries: of the log, the newest first; number: the version of an application id.
    Where another program has turned the rows back, the position is that of those rows; TargetError where the log does
    not say it.
    """
    newest: int | None = None  # of the versions that count
    for entry in entries:
        if newest is not None and entry["version"] > newest:
            continue
        if SAID in entry:
            said = json.loads(entry[SAID])
            at = Position(
                said["applied"], said["loaded"], said["schema_version"], said["load"], Mode(said["mode"]), said["item"]
            )
            return at, int(said["dropped"])
        if entry.get("operation") == "RESTORE":
            version = str(entry.get("operationParameters", {}).get("version", ""))
            newest = int(version) if version.isdigit() else -1
    if newest is not None:
        message = f"{table} was restored to an older version by another program, and its log does not say which."
        raise TargetError(message, remedy="Restore it to a recent version by its number.", table=table)
    return _from_numbers(number)


def _from_numbers(number: Callable[[str], int | None]) -> Said | None:
    if (applied := number(APPLIED)) is None:
        return None
    size, load = number(LOAD) or 0, b""
    for place in range(-(-size // TEXT_BYTES)):
        load += (number(f"{LOAD}.{place}") or 0).to_bytes(min(TEXT_BYTES, size - len(load)), "big")
    at = Position(
        applied, number(LOADED) or 0, number(VERSION) or 0, load.decode(), MODES[number(MODE) or 0]
    )  # fmt: skip
    return at, number(DROPPED) or 0
