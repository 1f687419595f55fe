"""A place in a MySQL or MariaDB binary log, and the GTID sets that make it portable between servers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any, NamedTuple

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId

KIND = "mysql"
_FIELDS = frozenset({"kind", "file", "position", "gtid", "past", "prepared"})
_SEQUENCE = re.compile(r"\.(\d+)$")
_MARIADB = re.compile(r"\d+-\d+-\d+(,\d+-\d+-\d+)*")


class Past(NamedTuple):
    """Of `file`: the second of its beginning, and where `start` is not 0 a digest of the event there, which closed a
    transaction.
    """

    file: str
    born: int
    start: int = 0
    digest: int = 0


class PreparedXa(NamedTuple):
    """An XA transaction that was prepared and not decided: where it begins, `at` which time, and which tables it
    changes.

    `tables` None: more than are worth naming.
    """

    xid: str
    file: str
    start: int
    at: int
    tables: tuple[TableId, ...] | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PreparedXa:
        """Inverse of `to_dict`."""
        tables = data["tables"]
        known = None if tables is None else tuple(TableId(str(one), str(other)) for one, other in tables)
        return cls(str(data["xid"]), str(data["file"]), int(data["start"]), int(data["at"]), known)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        tables = None if self.tables is None else [[table.database, table.name] for table in self.tables]
        return {**self._asdict(), "tables": tables}


def is_mariadb_gtid(text: str) -> bool:
    """True for `0-1-100` or a comma-separated list of such, False for a MySQL set and for nothing."""
    return _MARIADB.fullmatch(text) is not None


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class BinlogOffset:
    """A transaction boundary: `position` is the byte in `file` where the next transaction begins.

    `gtid` is all that was executed before it: MySQL's executed set, or MariaDB's position (one GTID for each domain);
    empty where the server writes none.  Offsets order by the number in the file's name, then by position (GTIDs have no
    part in it), so only offsets of one server compare in a meaningful way. `past` tells the log that was read from
    another with the same names and numbers; None in offsets of earlier versions.
    `prepared`: XA transactions before it whose rows count when they are committed after it.
    """

    file: str
    position: int
    gtid: str = ""
    past: Past | None = field(default=None, repr=False)
    prepared: tuple[PreparedXa, ...] = field(default=(), repr=False)

    @property
    def sequence(self) -> int:
        """The number at the end of the file's name; 0 where there is none."""
        match = _SEQUENCE.search(self.file)
        return int(match[1]) if match else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `parse_offset` is its inverse."""
        more: dict[str, Any] = {} if self.past is None else {"past": self.past._asdict()}
        if self.prepared:
            more["prepared"] = [one.to_dict() for one in self.prepared]
        return {"kind": KIND, "file": self.file, "position": self.position, "gtid": self.gtid, **more}

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinlogOffset):
            return NotImplemented
        return (self.file, self.position) == (other.file, other.position)

    def __hash__(self) -> int:
        return hash((self.file, self.position))

    def __lt__(self, other: BinlogOffset) -> bool:
        return (self.sequence, self.file, self.position) < (other.sequence, other.file, other.position)

    def covers(self, other: BinlogOffset) -> bool:
        """All is in the log."""
        return not self < other


def parse_offset(data: Mapping[str, Any]) -> BinlogOffset:
    """Inverse of `BinlogOffset.to_dict`; ConfigurationError if `data` is not a valid offset.

    Without `gtid` (a server that writes none) it is empty.  An unknown field is a later version's; it is refused,
    because its meaning must not be lost.
    """
    try:
        if data["kind"] != KIND:
            message = f"The stored offset is of kind {data['kind']!r}, not {KIND!r}."
            raise ConfigurationError(message)
        if unknown := sorted(set(data) - _FIELDS):
            raise ValueError(f"{unknown[0]} is not supported")  # noqa: TRY301 - worded with the others below
        past = Past(**data["past"]) if data.get("past") else None
        prepared = tuple(PreparedXa.from_dict(one) for one in data.get("prepared", ()))
        offset = BinlogOffset(str(data["file"]), int(data["position"]), str(data.get("gtid", "")), past, prepared)
        GtidPosition(offset.gtid)
        if not offset.file or offset.position < 0:
            raise ValueError(str(offset))  # noqa: TRY301
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        message = f"The stored offset cannot be read: {error!r}"
        raise ConfigurationError(message) from error
    return offset


@dataclass
class GtidSet:
    """A MySQL GTID set.  `sources` maps `uuid` or `uuid:tag` to sorted, disjoint, closed intervals."""

    sources: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> GtidSet:
        """Reads `uuid:1-5:7,uuid:tag:1` (blanks and line breaks are allowed); ValueError for anything else."""
        result = cls()
        for part in "".join(text.split()).split(","):
            if part:
                uuid, *rest = part.lower().split(":")
                result._read_source(uuid, rest)
        return result

    def _read_source(self, uuid: str, items: list[str]) -> None:
        source = uuid
        if not uuid or not items or not items[-1][:1].isdigit():
            message = f"{uuid} has no numbers"
            raise ValueError(message)
        for item in items:
            if not item[:1].isdigit():
                source = f"{uuid}:{item}"
                continue
            first, _, last = item.partition("-")
            low, high = int(first), int(last or first)
            if not 0 < low <= high:
                message = f"{item} is not a range"
                raise ValueError(message)
            self.add(source, low, high)

    def add(self, source: str, first: int, last: int | None = None) -> None:
        """Adds `first` to `last` (both inclusive)."""
        last = first if last is None else last
        intervals = self.sources.setdefault(source, [])
        if intervals and intervals[-1][1] + 1 == first:  # the usual case: the next transaction
            intervals[-1] = (intervals[-1][0], last)
            return
        if not intervals or intervals[-1][1] + 1 < first:  # a set with many gaps is read in its order
            intervals.append((first, last))
            return
        index = bisect_right(intervals, (first, last))
        intervals.insert(index, (first, last))
        merged: list[tuple[int, int]] = []
        for low, high in intervals:
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        self.sources[source] = merged

    @property
    def tagged(self) -> bool:
        """True where a source carries a tag (MySQL 8.3 and later)."""
        return any(":" in source for source in self.sources)

    def __contains__(self, other: object) -> bool:
        """True where every GTID of `other`, a set, is in this one."""
        if not isinstance(other, GtidSet):
            return False
        return all(
            any(low <= first and last <= high for low, high in self.sources.get(source, ()))
            for source, intervals in other.sources.items()
            for first, last in intervals
        )

    def __str__(self) -> str:
        def text(low: int, high: int) -> str:
            return f"{low}-{high}" if high > low else str(low)

        parts = (":".join([s, *(text(*i) for i in intervals)]) for s, intervals in sorted(self.sources.items()))
        return ",".join(parts)


class GtidPosition:
    """What was executed so far, kept as transactions go by; its text is that of `BinlogOffset.gtid`."""

    def __init__(self, text: str = "") -> None:
        """`text` empty: nothing is known, and stays so until `reset`."""
        self.known = False
        self._mysql: GtidSet | None = None
        self._domains: dict[str, str] = {}
        self._text = ""
        if text:
            self.reset(text)

    def reset(self, text: str) -> None:
        """Start again from a complete set, as a log file's head gives it."""
        self.known, self._text, self._domains, self._mysql = True, "", {}, None
        if is_mariadb_gtid(text):
            self._domains = {gtid.split("-")[0]: gtid for gtid in text.split(",")}
        elif text:
            self._mysql = GtidSet.parse(text)

    def add(self, gtid: str) -> None:
        """One more transaction: `0-1-101` or `uuid:5` or `uuid:tag:5`."""
        separator = ":" if ":" in gtid else "-"
        source, _, number = gtid.rpartition(separator)
        self.add_range(source + separator, int(number), int(number))

    def add_range(self, source: str, low: int, high: int) -> None:
        """Transactions with the numbers from `low` to `high`; `source` is all of a GTID that comes before: `0-1-`,
        `uuid:`.
        """
        if not self.known:
            return
        self._text = ""
        if source.endswith(":"):
            self._mysql = self._mysql or GtidSet()
            self._mysql.add(source[:-1], low, high)
        else:
            self._domains[source.split("-", maxsplit=1)[0]] = f"{source}{high}"

    def __str__(self) -> str:
        if not self._text and self.known:
            by_domain = sorted(self._domains.items(), key=lambda item: int(item[0]))
            self._text = str(self._mysql) if self._mysql else ",".join(gtid for _, gtid in by_domain)
        return self._text
