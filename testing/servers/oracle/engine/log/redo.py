"""The redo log: what was changed, in the order in which it was, in log files that are switched, archived and reused.

A file holds a line of JSON for its head and for each record.  An archived one may be deleted under the server.
"""

from __future__ import annotations

import bisect
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

GROUPS = 3
BLOCK = 512  # bytes
RESETLOGS = "resetlogs"  # a file in the folder: the database is to be opened so
ENDLESS = 18_446_744_073_709_551_615  # NEXT_CHANGE# of the current log
INSERT, DELETE, UPDATE, DDL, START, COMMIT, ROLLBACK = 1, 2, 3, 5, 6, 7, 36
Cells = dict[str, str | None]


@dataclass
class Record:
    """One change.

    scn         not smaller than that of any record before it
    at          seconds since 1970
    xid         undo segment, slot and sequence number
    operation   V$LOGMNR_CONTENTS.OPERATION_CODE
    version     of the table's columns
    row         the ROWID's number
    before, after   by column id: what is logged of the row, in Postgres' text
    undo        is it a compensation, of a rollback?
    changed     ids of the columns that an UPDATE changed
    text        a definition's statement
    place       log sequence number and byte, once written
    """

    scn: int
    at: float
    xid: tuple[int, int, int]
    operation: int
    user: str = ""
    obj: int = 0
    data_obj: int = 0
    owner: str = ""
    table: str = ""
    version: int = 0
    row: int = 0
    before: Cells = field(default_factory=dict)
    after: Cells = field(default_factory=dict)
    undo: bool = False
    text: str = ""
    place: tuple[int, int] = (0, 0)

    def line(self) -> bytes:
        fields = {name: value for name, value in vars(self).items() if value and name != "place"}
        return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


@dataclass
class Log:
    """One log, online in its group until the group is used again.  next: the SCN at which it ended; archived: its file,
    once it is; incarnation: the SCN at which the database was opened with RESETLOGS.
    """

    sequence: int
    group: int
    first: int
    since: float
    online: Path
    incarnation: int = 1
    next: int = ENDLESS
    until: float = 0.0
    archived: Path | None = None
    size: int = 0
    records: list[Record] = field(default_factory=list)
    scns: list[int] = field(default_factory=list)

    def between(self, first: int, last: int) -> Sequence[Record]:
        """Both included."""
        return self.records[bisect.bisect_left(self.scns, first) : bisect.bisect_right(self.scns, last)]

    def file(self, name: str) -> Path:
        """Which of its files is meant."""
        return self.archived if self.archived and str(self.archived) == name else self.online

    @property
    def gone(self) -> Path | None:
        """The archived file's mark, where RMAN has deleted it."""
        mark = self.archived and self.archived.with_suffix(".deleted")
        return mark if mark and mark.exists() else None


class RedoLog:
    """All logs.  Only who holds the database's lock calls it."""

    def __init__(self, folder: Path, size: int) -> None:
        """size: bytes at which a log is switched."""
        self.folder, self.size = folder, size
        self.logs: list[Log] = []
        self._file: BinaryIO | None = None
        for name in ("online", "archive"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    @property
    def current(self) -> Log:
        return self.logs[-1]

    @property
    def online(self) -> list[Log]:
        """One per group."""
        return [one for one in self.logs[-GROUPS:] if one.incarnation == self.current.incarnation]

    @property
    def incarnations(self) -> list[int]:
        """The present one last."""
        return sorted({one.incarnation for one in self.logs})

    def open(self, scn: int) -> int:
        """Read what there is, or begin the first log; returns the highest SCN."""
        found: dict[tuple[int, int], Log] = {}
        for path in sorted(self.folder.glob("*/*")):
            if path.suffix in (".log", ".arc") and (log := _read(path)):
                known = found.setdefault((log.incarnation, log.sequence), log)
                known.archived = known.archived or log.archived
                if path.suffix == ".log":
                    known.online = path
        self.logs = [found[one] for one in sorted(found)]
        for one, after in zip(self.logs, self.logs[1:], strict=False):
            one.next, one.until = after.first, after.since
        if not self.logs:
            self._begin(1, scn, 1)
        else:
            self._file = self.current.online.open("ab")
        return max([scn, *(record.scn for record in self.current.records), *(one.first for one in self.logs)])

    def append(self, *records: Record) -> None:
        """Append records; when this returns they are written, even if the process is killed."""
        assert self._file is not None
        log = self.current
        for record in records:
            line = record.line()
            record.place = log.sequence, log.size
            log.records.append(record)
            log.scns.append(record.scn)
            log.size += len(line)
            self._file.write(line)
        self._file.flush()
        if log.size > self.size and records:
            self.switch(records[-1].scn + 1)

    def switch(self, scn: int, *, reset: bool = False) -> None:
        """The current log ends below this SCN, and is archived; reset: another incarnation begins with the next."""
        log = self.current
        assert self._file is not None
        self._file.close()
        log.next, log.until = scn, time.time()
        target = self.folder / "archive" / f"1_{log.sequence}_{log.incarnation}.arc"
        shutil.copyfile(log.online, target)
        log.archived = target
        self._begin(1 if reset else log.sequence + 1, scn, scn if reset else log.incarnation)

    def all(self) -> Iterator[Record]:
        for log in self.logs:
            yield from log.records

    def log_of(self, name: str) -> Log | None:
        """Of a file that V$LOGFILE or V$ARCHIVED_LOG names."""
        for log in reversed(self.logs):
            if log.archived and str(log.archived) == name:
                return log
            if log in self.online and str(log.online) == name:
                return log
        return None

    def _begin(self, sequence: int, scn: int, incarnation: int) -> None:
        group = (sequence - 1) % GROUPS + 1
        path = self.folder / "online" / f"redo{group:02}.log"
        log = Log(sequence, group, scn, time.time(), path, incarnation)
        names = ("sequence", "group", "first", "since", "incarnation")
        head = json.dumps({name: getattr(log, name) for name in names}).encode() + b"\n"
        log.size = len(head)
        self._file = path.open("wb")
        self._file.write(head)
        self._file.flush()
        self.logs.append(log)


def _read(path: Path) -> Log | None:
    """A last line that was cut off is none."""
    lines = path.read_bytes().split(b"\n")[:-1]
    if not lines:
        return None
    head: dict[str, Any] = json.loads(lines[0])
    log = Log(**head, online=path, archived=path if path.suffix == ".arc" else None, size=len(lines[0]) + 1)
    for line in lines[1:]:
        fields = json.loads(line)
        fields["xid"] = tuple(fields["xid"])
        record = Record(**fields, place=(log.sequence, log.size))
        log.records.append(record)
        log.scns.append(record.scn)
        log.size += len(line) + 1
    return log
