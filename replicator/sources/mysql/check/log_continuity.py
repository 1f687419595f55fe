"""Check that the server's log is the one that was read, by reading it again over a separate connection."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import UTC, datetime

from replicator.errors import LogCorrupt, SourceReplaced, SourceUnreachable
from replicator.sources.mysql.config import MySqlConfig
from replicator.sources.mysql.log_identity import closed_by
from replicator.sources.mysql.offset import Past
from replicator.sources.mysql.wire import events as e
from replicator.sources.mysql.wire.binlog_dump import begin_dump
from replicator.sources.mysql.wire.events import BinlogEvent, EventParser
from replicator.sources.mysql.wire.packet_stream import PacketStream
from replicator.sources.mysql.wire.stream_error import OK, stream_error

_SECONDS = 60.0
_NO_EVENT = "the first event '"  # in what the server says of an event that it cannot read


def check_past(config: MySqlConfig, server_id: int, past: Past) -> None:
    """The server has a file of that name.  SourceReplaced where it is another one, or holds something else."""
    events = log_events(config, server_id, past.file, past.start or len(e.MAGIC))
    begun = _begun(events, past.file)
    if begun.born != past.born:
        message = (
            f"The source's log file {past.file} was begun at {_moment(begun.born)}, but the one that was read at "
            f"{_moment(past.born)}: the source was restored from a copy, or its log was reset."
        )
        raise SourceReplaced(message)
    if past.start and _closed(events, begun) != past:
        message = (
            f"The source's log differs at {past.file}:{past.start} from what was captured there. The source was"
            " restored to an older state."
        )
        raise SourceReplaced(message)


def file_begun(config: MySqlConfig, server_id: int, file: str) -> Past:
    """What there is to know of a file of which nothing was read yet."""
    return _begun(log_events(config, server_id, file, len(e.MAGIC)), file)


def _begun(events: Iterator[BinlogEvent], file: str) -> Past:
    for event in events:
        if event.type == e.FORMAT_DESCRIPTION:
            return Past(file, event.timestamp)
    raise AssertionError("the stream of a log ends with an error")


def _closed(events: Iterator[BinlogEvent], begun: Past) -> Past | None:
    """None where no event begins."""
    try:
        for event in events:
            if event.start < event.end and event.type != e.START_ENCRYPTION:
                return closed_by(begun, event)
    except (LogCorrupt, SourceReplaced):
        pass
    except SourceUnreachable as error:
        if _NO_EVENT not in error.message:
            raise
    return None


def log_events(config: MySqlConfig, server_id: int, file: str, position: int) -> Generator[BinlogEvent]:
    """The log from there on, with what the server sends before; endless but for errors."""
    connection = begin_dump(config, server_id, file, position, follow=False)
    try:
        stream, parser = PacketStream(connection), EventParser(file, position)
        while stream.fill(_SECONDS):
            while (packet := stream.next()) is not None:
                if packet[:1] != OK:
                    raise stream_error(bytes(packet))
                with parser.guard():
                    event = parser.parse(memoryview(packet)[1:])
                yield event
        message = f"The source did not send its log file {file} within {_SECONDS:.0f} s."
        raise SourceUnreachable(message)
    finally:
        connection.close()


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
