"""Binary log files, plain or .gz, through the same parser and decoder as the live log."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from replicator.errors import ConfigurationError, LogCorrupt
from replicator.model.change import LogMessage
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.mysql.offset import BinlogOffset
from replicator.sources.mysql.stream.schema_tracker import LogSchemas
from replicator.sources.mysql.stream.transaction_assembler import TransactionAssembler
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.events import BinlogEvent, EventParser
from replicator.sources.mysql.wire.transaction_payload import open_payload

_READ = 1 << 20


class _Everything(TableSet):
    """All tables."""

    def __contains__(self, table: object) -> bool:
        return isinstance(table, TableId)


def read_file(
    path: Path,
    tables: TableSet | None = None,
    schemas: Mapping[TableId, TableSchema] | None = None,
    options: ReadOptions | None = None,
) -> Iterator[LogMessage]:
    """All messages of one file; `tables` None: of every table.

    Where the log has no column names (binlog_row_metadata=MINIMAL, servers before 8.0) they are `@1`, `@2` …, numbers
    without a sign in the log are signed, and text without a character set stays bytes; labels without one stop their
    table. Raises LogCorrupt.
    """
    options = options or ReadOptions()
    chosen = tables if tables is not None else _Everything()
    known = LogSchemas(chosen, schemas or {}, options, describe=None)
    name = path.name.removesuffix(".gz")
    interpreter = TransactionAssembler(chosen, known, options, BinlogOffset(name, len(e.MAGIC)))
    parser = EventParser(name, whole=True)
    with parser.guard():
        for event in read_events(path, parser):
            for inner in (event,) if event.type != e.TRANSACTION_PAYLOAD else open_payload(event):
                interpreter.feed(inner)
                if interpreter.ready:
                    yield from interpreter.take_out()
        interpreter.settle()
    yield from interpreter.take_out()


def read_events(path: Path, parser: EventParser | None = None) -> Iterator[BinlogEvent]:
    """The events of one file.  A file that a crash cut short ends with LogCorrupt."""
    name = path.name.removesuffix(".gz")
    parser = parser or EventParser(name, whole=True)
    with _open(path) as file:
        magic = file.read(len(e.MAGIC))
        if magic == e.ENCRYPTED_MAGIC:
            raise ConfigurationError(f"{path.name} is encrypted. Read it through the server.")
        if magic != e.MAGIC:
            raise LogCorrupt(f"{path.name} is not a binary log.")
        for raw in _split(file):
            with parser.guard():
                event = parser.parse(raw)
            if event.type == e.START_ENCRYPTION:
                raise ConfigurationError(f"{path.name} is encrypted. Read it through the server.")
            yield event


def _split(file: BinaryIO) -> Iterator[bytes]:
    """The raw events; the last one is cut short where the file is."""
    data = bytearray()
    while True:
        size = int.from_bytes(data[9:13], "little") if len(data) >= e.HEADER_SIZE else e.HEADER_SIZE
        if len(data) >= max(size, e.HEADER_SIZE):
            yield bytes(data[:size])
            del data[:size]
        elif more := file.read(_READ):  # piece by piece: the size may be a lie
            data += more
        else:
            if data:
                yield bytes(data)
            return


def _open(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    return path.open("rb")
