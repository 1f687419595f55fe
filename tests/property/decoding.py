"""Mutated logs through the real decoders, in a separate process: `python -m tests.property.decoding SEED COUNT FILE…`.

The process is separate, because a kernel that reads past its buffer or hangs ends it, and its memory is limited.
Prints one JSON line for each fault, and one with the counts at the end.
"""

from __future__ import annotations

import faulthandler
import json
import random
import re
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from replicator.errors import LogCorrupt, SourceUnreachable, TidemarkError
from replicator.model.change import ChangeBatch, Commit, LogMessage, SchemaChange, TableFailed
from replicator.model.identifiers import TableId
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.stream.file_reader import read_file
from replicator.sources.mysql.stream.reader import _Loop
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import EventParser
from replicator.sources.mysql.wire.packet_stream import PacketStream
from tests.property.mutations import Log, Mutant, mutate, open_log

_PLACE = re.compile(r"(after|at) .*:\d+|is not a binary log")
SECONDS = 2.0  # of the processor: the machine may have other things to do
STUCK = 60.0  # by the clock
MEMORY = 1 << 30
Rows = dict[int, Any]


class Hang(BaseException):
    """The time limit: no handler of ours may take it for an error."""


class Result:
    """What came out: by ordinal, what a commit would make durable; the error at the end (None: read to the end)."""

    def __init__(self, messages: Iterator[LogMessage]) -> None:
        self.rows: Rows = {}
        self._open: Rows = {}
        self.error: BaseException | None = None
        self.failed: list[TableFailed] = []
        try:
            for message in messages:
                self._take(message)
        except Exception as error:  # noqa: BLE001 - which it is, is the question
            self.error = error

    def _take(self, message: LogMessage) -> None:
        if isinstance(message, ChangeBatch):
            message.data.validate(full=True)
            assert message.data.schema == message.schema.change_arrow
            for place, number in enumerate(message.data.column(0).to_pylist()):
                self._put(number, (message.table, _plain(message.data.slice(place, 1))))
        elif isinstance(message, SchemaChange):
            self._put(message.ordinal, (message.table, message.operation, message.schema, message.new_table))
        elif isinstance(message, TableFailed):
            self.failed.append(message)
        elif isinstance(message, Commit):
            self.rows |= self._open
            self._open = {}

    def _put(self, ordinal: int, what: object) -> None:
        assert ordinal not in self.rows, "an ordinal twice"
        assert ordinal not in self._open, "an ordinal twice"
        self._open[ordinal] = what


def _plain(row: pa.RecordBatch) -> tuple[Any, ...]:
    """Decimals and dates beyond Python's as text."""
    return tuple(
        str(column.cast(pa.string(), safe=False)[0]) if _odd(column.type) else str(column[0]) for column in row
    )


def _odd(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


class _Wire:
    """A connection, and its socket, over which the server would send these packets; it breaks off behind the last
    one.
    """

    def __init__(self, packets: Sequence[bytes]) -> None:
        numbered = (len(packet).to_bytes(3, "little") + b"\1" + packet for packet in packets)
        self._sock, self._bytes, self._at = self, memoryview(b"".join(numbered)), 0

    def settimeout(self, _seconds: float) -> None: ...

    def recv_into(self, room: memoryview) -> int:
        if self._at == len(self._bytes):
            raise SourceUnreachable("the end")
        part = self._bytes[self._at : self._at + len(room)]
        room[: len(part)] = part
        self._at += len(part)
        return len(part)


class _All(TableSet):
    def __contains__(self, table: object) -> bool:
        return isinstance(table, TableId)


def read_live(events: Sequence[bytes], options: ReadOptions | None = None) -> Iterator[LogMessage]:
    """As from a server: in runs, with a catalog that knows no table any more."""
    tables, options = _All(), options or ReadOptions()
    start = BinlogOffset("binlog.000001", 4)
    interpreter = TransactionAssembler(tables, LogSchemas(tables, {}, options, lambda _: None), options, start)
    stream = PacketStream(_Wire([b"\0" + raw for raw in events]))
    loop = _Loop(stream, EventParser(start.file, start.position), interpreter, options.batch_bytes)
    try:
        yield from loop.messages()
    except SourceUnreachable as error:
        if error.message != "the end":
            raise
    interpreter.settle()
    yield from interpreter.take_out()


def read_log(mutant: Mutant, path: Path, *, live: bool) -> Result:
    if live:
        assert mutant.events is not None
        return Result(read_live(mutant.events))
    path.write_bytes(mutant.data)
    return Result(read_file(path))


def fault(  # noqa: PLR0911 - one for each fault
    mutant: Mutant, original: Log, expected: Result, found: Result, *, live: bool
) -> str:
    """What is wrong with the outcome; empty: nothing."""
    error = found.error
    if error is not None and not isinstance(error, TidemarkError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, LogCorrupt) and not _PLACE.search(error.message):
        return f"an error that does not say where: {error}"
    for failed in found.failed:
        if not failed.error.message or str(failed.table) not in failed.error.message:
            return f"a table's error that does not name it: {failed.error}"
    if mutant.repaired or not original.checksum or (live and "left out" in mutant.what):
        return ""  # a server may leave events out that the reader has already, so only a file must be without gaps
    if wrong := [n for n, row in found.rows.items() if expected.rows.get(n) != row]:
        return f"row {wrong[0]} is wrong behind a checksum: {found.rows[wrong[0]]}"
    if error is None and found.rows != expected.rows and not _shorter(mutant, original):
        return "damage behind a checksum was not found"
    return ""


def _shorter(mutant: Mutant, original: Log) -> bool:
    """A log that ends with a whole event is one that is still being written."""
    ends = {len(e.MAGIC)}
    for raw in original.events:
        ends.add(max(ends) + len(raw))
    return len(mutant.data) in ends and original.data.startswith(mutant.data)


def run(seed: int, count: int, files: list[Path]) -> Iterator[str]:
    """Faults as JSON lines, then the counts."""
    logs = [open_log(path.read_bytes()) for path in files]
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant.000001"
        whole = [Mutant(log.data, tuple(log.events), repaired=False, what="") for log in logs]
        wanted = {(at, live): read_log(log, path, live=live) for at, log in enumerate(whole) for live in (False, True)}
        for number in range(count):
            rng = random.Random(f"{seed}/{number}")
            at, live = rng.randrange(len(logs)), rng.random() < 0.5
            mutant = mutate(logs[at], rng)
            live = live and mutant.events is not None
            what = _timed(mutant, logs[at], wanted[at, live], path, seen, live=live)
            if what:
                how = "live" if live else "file"
                repaired = "repaired" if mutant.repaired else "as it is"
                yield json.dumps(
                    {"case": number, "file": files[at].name, "how": f"{how}, {repaired}, {mutant.what}", "fault": what}
                )
    yield json.dumps({"seen": dict(seen)})


def _timed(mutant: Mutant, log: Log, expected: Result, path: Path, seen: Counter[str], *, live: bool) -> str:
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    faulthandler.dump_traceback_later(STUCK, exit=True)
    try:
        found = read_log(mutant, path, live=live)
        seen[type(found.error).__name__ if found.error else "read"] += 1
        return fault(mutant, log, expected, found, live=live)
    except Hang:
        return "hang"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def _hang(_signal: int, _frame: object) -> None:
    raise Hang


def main() -> None:
    faulthandler.enable()
    warnings.simplefilter("error")
    signal.signal(signal.SIGPROF, _hang)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (max(used, virtual) + MEMORY, resource.RLIM_INFINITY))
    seed, count, *files = sys.argv[1:]
    for line in run(int(seed), int(count), [Path(file) for file in files]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
