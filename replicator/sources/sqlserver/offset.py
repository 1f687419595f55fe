"""Places in a database's log: log sequence numbers of commits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError

KIND = "sqlserver"
LSN_BYTES = 10
_FIELDS, _VERSION_FIELDS = frozenset({"kind", "lsn", "commit"}), frozenset({"kind", "version"})
_TEXT = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})")


def lsn_text(lsn: bytes) -> str:
    """As the server's tools print it: `0000002a:000001f8:0003`."""
    text = lsn.hex()
    return f"{text[:8]}:{text[8:16]}:{text[16:]}"


def parse_lsn(text: str) -> bytes:
    """Inverse of `lsn_text`; ValueError for all else."""
    found = _TEXT.fullmatch(text.lower())
    if found is None:
        raise ValueError(f"{text!r} is not an LSN")
    return bytes.fromhex("".join(found.groups()))


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """The last transaction that was read, as `cdc.lsn_time_mapping` has it: no other past of the database has that
    transaction at that place.  `transaction`: hexadecimal tran_id; `ended`: tran_end_time as text.
    """

    lsn: bytes
    transaction: str
    ended: str

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"lsn": lsn_text(self.lsn), "transaction": self.transaction, "ended": self.ended}

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> CommitPoint:
        """Inverse of `to_dict`; KeyError, TypeError, ValueError."""
        return cls(parse_lsn(data["lsn"]), str(data["transaction"]), str(data["ended"]))


@dataclass(frozen=True)
class LsnOffset:
    """`lsn`: all transactions whose commit has an LSN up to this one were read, and no later one.

    Change LSNs inside of a transaction are not monotonic, so reading resumes at commits only.
    `commit`: None where nothing was read yet.
    """

    lsn: bytes
    commit: CommitPoint | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        data: dict[str, Any] = {"kind": KIND, "lsn": str(self)}
        return data | ({"commit": self.commit.to_dict()} if self.commit else {})

    def __str__(self) -> str:
        return lsn_text(self.lsn)

    def __lt__(self, other: LsnOffset) -> bool:
        return self.lsn < other.lsn

    def covers(self, other: LsnOffset) -> bool:
        """Definitions come at the place of the log up to which the catalog was seen."""
        return self.lsn >= other.lsn


@dataclass(frozen=True)
class VersionOffset:
    """Of Change Tracking.  `version`: what changed up to this one was read as it was then, and nothing later."""

    version: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"kind": KIND, "version": self.version}

    def __str__(self) -> str:
        return str(self.version)

    def __lt__(self, other: VersionOffset) -> bool:
        return self.version < other.version

    def covers(self, other: VersionOffset) -> bool:
        """As of LSNs."""
        return self.version >= other.version


def parse_offset(data: Mapping[str, Any]) -> LsnOffset | VersionOffset:
    """Inverse of `to_dict` of both; ConfigurationError if `data` is not a valid offset.

    An unknown field is a later version's, and is refused.
    """
    try:
        known = _VERSION_FIELDS if "version" in data else _FIELDS
        if data["kind"] != KIND or (unknown := sorted(set(data) - known)):
            raise ValueError(data["kind"] if data["kind"] != KIND else unknown[0])  # noqa: TRY301 - worded below
        if "version" in data:
            return VersionOffset(int(data["version"]))
        commit = CommitPoint.parse(data["commit"]) if "commit" in data else None
        return LsnOffset(parse_lsn(data["lsn"]), commit)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"The stored offset cannot be read: {error!r}") from error
