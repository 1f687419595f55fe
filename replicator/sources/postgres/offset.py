"""Places in a Postgres log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from replicator.errors import ConfigurationError

KIND = "postgres"
_FIELDS = frozenset({"kind", "lsn", "unsettled", "last_commit", "looked"})
_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})")
_XID = re.compile(r"[0-9]{1,10}|\*")


def lsn_text(lsn: int) -> str:
    """As pg_lsn prints it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Inverse of `lsn_text`; ValueError for all else."""
    found = _LSN.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an LSN")
    return int(found[1], 16) << 32 | int(found[2], 16)


def _none() -> frozenset[str]:
    return frozenset()


@dataclass(frozen=True, slots=True)
class LastCommit:
    """The last transaction that was read: where its commit record begins, its number, and when it was committed.

    No other past of the same server has that transaction at that place (`past`).  `commit_us`: microseconds since 1970.
    """

    record: int
    xid: int
    commit_us: int

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"record": lsn_text(self.record), "xid": self.xid, "commit_us": self.commit_us}

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> LastCommit:
        """Inverse of `to_dict`; KeyError, TypeError, ValueError."""
        return cls(parse_lsn(data["record"]), int(data["xid"]), int(data["commit_us"]))


@dataclass(frozen=True)
class LsnOffset:
    """`lsn`: the end of the last commit record that was read, or a later place with none of our changes between.

    `unsettled()`: transactions before it that may not be visible yet (see `model.change.Settled`): a snapshot that is
    taken after a restart must not be expected to show them.  Called only when the offset is stored.
    `last_commit`: None in offsets of earlier versions, and where nothing was read yet.
    `looked`: the end of the log at the latest look at the catalog that was reported; of use up to `lsn` only (0:
    unknown).
    """

    lsn: int
    unsettled: Callable[[], frozenset[str]] = field(default=_none, compare=False, repr=False)
    last_commit: LastCommit | None = field(default=None, compare=False)
    looked: int = field(default=0, compare=False, repr=False)

    @property
    def needed_from(self) -> int:
        """What the slot must keep: the last commit comes once more, to be recognised."""
        return self.lsn if self.last_commit is None else self.last_commit.record

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        data: dict[str, Any] = {"kind": KIND, "lsn": str(self)}
        if unsettled := sorted(self.unsettled()):
            data["unsettled"] = unsettled
        if self.last_commit is not None:
            data["last_commit"] = self.last_commit.to_dict()
        if self.looked:
            data["looked"] = lsn_text(self.looked)
        return data

    def __str__(self) -> str:
        return lsn_text(self.lsn)

    def __lt__(self, other: LsnOffset) -> bool:
        return self.lsn < other.lsn

    def covers(self, other: LsnOffset) -> bool:
        """Definitions are not in the log: the catalog tells."""
        return min(self.lsn, self.looked) >= other.lsn


def parse_offset(data: Mapping[str, Any]) -> LsnOffset:
    """Inverse of `LsnOffset.to_dict`; ConfigurationError if `data` is not a valid offset.

    An unknown field is a later version's; it is refused, because its meaning must not be lost.
    """
    try:
        if data["kind"] != KIND:
            raise ConfigurationError(f"The stored offset is of kind {data['kind']!r}, not {KIND!r}.")
        if unknown := sorted(set(data) - _FIELDS):
            raise ValueError(f"{unknown[0]} is not supported")  # noqa: TRY301 - worded with the others below
        lsn = parse_lsn(data["lsn"])
        looked = parse_lsn(data["looked"]) if "looked" in data else 0
        unsettled = frozenset(data.get("unsettled", ()))
        if not all(map(_XID.fullmatch, unsettled)):
            raise ValueError(f"{sorted(unsettled)} are not transaction ids")  # noqa: TRY301
        last_commit = LastCommit.parse(data["last_commit"]) if "last_commit" in data else None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigurationError(f"The stored offset cannot be read: {error!r}") from error
    return LsnOffset(lsn, lambda: unsettled, last_commit, looked)
