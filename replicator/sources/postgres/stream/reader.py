"""The log, live: pgoutput over a replication connection.

psycopg 3 connects; what the server answers to START_REPLICATION is read in bulk (socket_stream, libpq with TLS), and
taken in runs of messages as far as these are plain (plain_changes), else one by one (decoding).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

import psycopg
import psycopg2
from psycopg.pq import ExecStatus

from replicator.errors import LogCorrupt, LogPurged, LogUnreadable, SourceUnreachable, TableError, TidemarkError
from replicator.model.change import HEARTBEAT, Heartbeat, LogMessage, Settled
from replicator.model.identifiers import TableId
from replicator.model.offset import Offset
from replicator.model.schema import TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.base import ReadOptions
from replicator.sources.postgres.catalog.attributes import with_publication_of
from replicator.sources.postgres.catalog.catalog import PostgresCatalog
from replicator.sources.postgres.charset import Charset, read_charset
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.postgres.connection import Connection, connect, literal, server_version
from replicator.sources.postgres.ddl import event_trigger
from replicator.sources.postgres.offset import LsnOffset, lsn_text
from replicator.sources.postgres.rows.columns import exact
from replicator.sources.postgres.stream.catalog_observer import CatalogObserver, Now, now
from replicator.sources.postgres.stream.catch_up import Backlog, CaughtUp, SliceFailed, catch_up
from replicator.sources.postgres.stream.decoder import Decoder, NotInBinary
from replicator.sources.postgres.stream.message_runs import plain_run
from replicator.sources.postgres.stream.publication_additions import Additions
from replicator.sources.postgres.stream.relations import Relations
from replicator.sources.postgres.stream.slot import ReplicationSlot
from replicator.sources.postgres.watermark import write_mark
from replicator.sources.postgres.wire import messages as m
from replicator.sources.postgres.wire.copy_both import CopyStream, LogConnection, connect_log, error_fields, refusal
from replicator.sources.postgres.wire.message_buffer import MessageBuffer
from replicator.sources.postgres.wire.socket_stream import SocketStream
from replicator.sources.postgres.xid_snapshot import parsed
from replicator.sources.shared.date_policy import date_policy

_SETTLE = 0.3  # seconds that rows wait for more at most
_SETTLE_BEHIND = 2.0  # while a long way of the log is read at once: nothing is fresh before its end
_BEAT = 0.45
_BURST = 0.1  # seconds of reading before anything else is looked at
_STALE = 5.0  # seconds after which a quiet log whose end cannot be read is given something to end with
_SKIPS_EMPTY = _KNOWS_PARTITIONS = 150000
_BUSY, _NO_FUNCTION, _NO_CHARACTER = "55006", "42883", "22P05"
_TAKEOVER_SECONDS = 15.0
_GONE = ("has already been removed", "can no longer get changes", "has been invalidated")
_NO_OBJECT = "42704"  # the slot or the publication
_UNREADABLE = ("could not map filenumber", "could not map filenode")  # a change of a table that the server cannot name
_UNTRANSLATABLE = frozenset({"22021", "22P05"})  # a text is invalid in its encoding, or has no character in UTF-8
_CORRECT_TEXT = (
    "Correct the text in the source, or remove its table from the replicator; then restart the replicator from scratch"
    " (resnapshots all its tables)."
)
_ANOTHER_SLOT = (
    "PostgreSQL cannot decode its own log. Retried automatically. If it persists, update the server to its newest"
    " minor release. If that does not help, run SELECT pg_drop_replication_slot({slot}); and restart the replicator"
    " from scratch."
)
_PROTOCOLS = ((160000, 4), (150000, 3), (140000, 2))
IN_RUNS = True
_AS_TEXT: set[str] = set()  # slots whose log had a value that is not decoded from binary
_AS_STORED: dict[
    str, Charset | None
] = {}  # slots whose log had a text that is not UTF-8; None where nothing else can be had
_STREAMED_ONLY: set[str] = set()  # slots whose server gives the log in no other way


class PgOutputReader:
    """A LogReader (replicator.sources.base)."""

    def __init__(self, config: PostgresConfig, options: ReadOptions, replicator: str) -> None:
        self._config, self._options, self._replicator = config, options, replicator
        self._control: Connection | None = None
        self._connection: LogConnection | None = None
        self._stream: MessageBuffer | None = None
        self._durable = 0
        self._was_at, self._moved_at, self._marked_at = 0, time.monotonic(), 0
        self._slot = config.slot_for(replicator)

    def read(self, start: Offset, tables: TableSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[LogMessage]:
        """As the port says.

        Rows wait for at most 0.3 s, so that a transaction's end is a batch's end wherever possible.
        """
        assert isinstance(start, LsnOffset)
        self._control = connect(self._config)
        slot = ReplicationSlot(self._control, self._config, self._replicator)
        self._durable = slot.confirmed()
        if self._durable > start.needed_from:
            message = (
                f"The replication slot {slot.slot} is at {lsn_text(self._durable)} already, after {start}: another"
                " client has read from it."
            )
            raise LogPurged(message)
        tables = tables.followed()
        catalog = PostgresCatalog(self._control, left_out=tables, zero_dates=date_policy(self._options))
        relations = Relations(catalog, tables, schemas, date_policy(self._options))
        self._additions = Additions(slot, slot.missing([table for table in schemas if table in tables]))
        binary = self._slot not in _AS_TEXT and _binary(catalog, tables, schemas.keys() | slot.published())
        empty = server_version(self._control) < _SKIPS_EMPTY
        self._charset = _AS_STORED.get(self._slot)
        self._decoder = Decoder(
            relations, self._options, start, self._replicator, self._additions.add, binary=binary, tells_empty=empty,
            key=event_trigger.read_key(self._control, self._config.where),
        )  # fmt: skip
        self._decoder.charset = self._charset
        ours = not self._config.publication
        self._watch = CatalogObserver(self._control, self._config.where, catalog, tables, slot.publication, ours=ours)
        self._stream = self._begin(slot, start)
        slot.withdraw(tables)
        yield Settled(self._decoder.settling.unsettled())
        yield from self._messages(slot)

    def confirm(self, durable: Offset) -> None:
        """The slot may forget what is before it (invariant 1), but for the last commit."""
        assert isinstance(durable, LsnOffset)
        self._durable = max(self._durable, durable.needed_from)
        if self._stream is not None:
            self._stream.feedback(self._decoder.position, self._durable)

    def shows(self, evidence: str, transaction: str) -> bool:
        """`evidence` is pg_current_snapshot()'s text."""
        return parsed(evidence).shows(int(transaction))

    def learned(self, shown: TableSchema, known: TableSchema) -> TableSchema | None:
        """An observation of the catalog tells soon, and of renamed columns and values that the rows' own schema says
        nothing of.

        How the table was published when it was read is what later observations are compared with, where none has said
        so before.
        """
        relations = self._decoder.relations
        same = shown == known and not shown.is_another(known)
        if (same or relations.is_known(shown)) and relations.published_as(shown):
            return with_publication_of(shown, known)
        self._watch.hurry()
        return None

    def close(self) -> None:
        """The slot is free again when this returns, or soon after."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        for connection in (self._connection, self._control):
            if connection is not None:
                with suppress(psycopg2.Error, psycopg.Error):
                    connection.close()
        self._connection = self._control = None

    # ---- the stream

    def _begin(self, slot: ReplicationSlot, start: LsnOffset) -> MessageBuffer:
        """What is read from there: a long way at once, where there is one."""
        assert self._control is not None
        far = None
        if self._slot not in _STREAMED_ONLY:
            options = self._plugin_options(slot, server_version(self._control))
            far = catch_up(self._config, self._control, slot.slot, start.lsn, self._durable, options)
        return far or self._open(slot)

    def _follow(self, slot: ReplicationSlot, position: int = 0) -> None:
        """The stream, from where the log was read up to: a transaction's end, or `position` behind it."""
        decoder = self._decoder
        if decoder.in_transaction:
            raise SourceUnreachable("The source's log ended within a transaction.")
        decoder.reached(position)
        if self._stream is not None:
            self._stream.close()
        self._stream = self._open(slot)

    def _follow_partitions(self, slot: ReplicationSlot) -> None:
        """Before 15 a stream goes on giving a partition's rows, or not, as what it was when the stream first met it.

        What is read again is so after this: from here on all that is committed comes in a stream that knows.
        """
        self._decoder.repartitioned = False
        assert self._control is not None
        if server_version(self._control) < _KNOWS_PARTITIONS and not isinstance(self._stream, Backlog):
            self._decoder.forget_streamed()
            self._follow(slot)

    def _open(self, slot: ReplicationSlot) -> MessageBuffer:
        """From where the decoder goes on.

        A reader that is there already is one of ours, whose lease is over: it is ended.
        """
        deadline = time.monotonic() + _TAKEOVER_SECONDS
        while True:
            more = {"options": self._charset.options} if self._charset else {}
            self._connection = connect_log(self._config, **more)
            command = self._command(slot, self._connection.info.server_version)
            plain = not self._connection.pgconn.ssl_in_use
            if plain and (stream := SocketStream.begin(self._connection, command)) is not None:
                return stream
            answer = self._connection.pgconn.exec_(command.encode())
            if answer.status == ExecStatus.COPY_BOTH:
                return CopyStream(self._connection)
            self._connection.close()
            fields = error_fields(answer)
            if fields.get("C") != _BUSY or time.monotonic() > deadline:
                failure = log_failure(self._slot, fields.get("", ""), fields.get("C", ""))
                raise failure if isinstance(failure, LogPurged | LogCorrupt) else refusal(fields, self._config.where)
            slot.release()

    def _command(self, slot: ReplicationSlot, version: int) -> str:
        options = self._plugin_options(slot, version)
        if int(options["proto_version"]) > 1:
            options |= {"streaming": "on"}
        listed = ", ".join(f"{name} {literal(value)}" for name, value in options.items())
        return f'START_REPLICATION SLOT "{slot.slot}" LOGICAL {lsn_text(self._decoder.resumes_at)} ({listed})'

    def _plugin_options(self, slot: ReplicationSlot, version: int) -> dict[str, str]:
        protocol = next((number for since, number in _PROTOCOLS if version >= since), 1)
        options = {"proto_version": str(protocol), "publication_names": '"' + slot.publication.replace('"', '""') + '"'}
        if protocol > 1:
            options |= {"messages": "true"}
            options |= {"binary": "true"} if self._decoder.binary else {}
        return options

    # ---- reading

    def _messages(self, slot: ReplicationSlot) -> Iterator[LogMessage]:
        decoder, beat, next_heartbeat, settle = self._decoder, 0.0, 0.0, None
        while True:
            if time.monotonic() >= beat:
                self._beat(slot)
                beat = time.monotonic() + _BEAT
                yield from self._drain()
            quiet = self._receive(slot, settling=settle is not None and time.monotonic() >= settle)
            if decoder.waiting and settle is None:
                settle = time.monotonic() + (_SETTLE_BEHIND if isinstance(self._stream, Backlog) else _SETTLE)
            if not decoder.in_transaction and settle is not None and (quiet or time.monotonic() >= settle):
                decoder.boundary()
                settle = None
            yield from self._drain()
            if decoder.repartitioned and not decoder.in_transaction:
                self._follow_partitions(slot)
            idle = not (decoder.waiting or decoder.in_transaction)  # what other databases write is never quiet
            if quiet or (idle and time.monotonic() >= next_heartbeat):
                next_heartbeat = time.monotonic() + _BEAT
                yield self._heartbeat()

    def _drain(self) -> Iterator[LogMessage]:
        out, self._decoder.out = self._decoder.out, []
        yield from out

    def _receive(self, slot: ReplicationSlot, *, settling: bool) -> bool:
        """Take what is there for a while; True where nothing has come for some time.

        `settling`: up to where a transaction has ended, if one does.
        """
        assert self._stream is not None
        decoder, until = self._decoder, time.monotonic() + _BURST
        try:
            while not decoder.out and time.monotonic() < until:
                if not self._advance(self._stream, settling=settling):
                    if not self._stream.fill(_SETTLE):
                        return True
                elif settling and not decoder.in_transaction:
                    return False
        except EOFError as ended:
            text, state = ended.args if len(ended.args) > 1 else (str(ended), "")
            if state == _NO_FUNCTION and decoder.binary:  # of a type inside one of any table that is published, or was
                raise self._as_text(text) from None
            if state == _NO_CHARACTER and self._slot not in _AS_STORED:
                _AS_STORED[self._slot] = read_charset(self._config)
                _STREAMED_ONLY.add(self._slot)
                raise self._as_text(text) from None
            raise log_failure(self._slot, text, state) from None
        except CaughtUp as caught_up:
            self._follow(slot, caught_up.position)
        except SliceFailed:
            _STREAMED_ONLY.add(self._slot)
            self._follow(slot)
        except NotInBinary as error:
            raise self._as_text(str(error)) from None
        return False

    def _as_text(self, why: str) -> SourceUnreachable:
        _AS_TEXT.add(self._slot)
        return SourceUnreachable(f"Rereading the log in text format: {why}")

    def _advance(self, stream: MessageBuffer, *, settling: bool) -> bool:
        """Take the messages that come next, all at once as long as they are plain; False where none is there."""
        decoder = self._decoder
        if IN_RUNS and (known := decoder.known()) is not None:
            run = plain_run(
                stream, known, decoder.transaction, start=decoder.start, limit=decoder.looks_at, whole=settling
            )
            if run is not None:
                decoder.feed_run(known, run)
                return True
        message = stream.next()
        if message is not None:
            self._take(message)
        return message is not None

    def _take(self, message: bytes) -> None:
        if message[0] == ord("w"):
            self._decoder.feed(message[m.XLOG_HEADER :])
            return
        end, reply = m.keepalive(message)
        if not self._decoder.in_transaction:
            self._decoder.reached(end)
        if reply and self._stream is not None:
            self._stream.feedback(self._decoder.position, self._durable)

    def _beat(self, slot: ReplicationSlot) -> None:
        """Look at the source beside its log, and ask how far the server has read it."""
        assert self._control is not None
        assert self._stream is not None
        decoder = self._decoder
        seen = now(self._control, self._config.where)
        decoder.observed(seen)
        if self._watch.due():
            observation = self._watch.look(decoder.relations)
            if observation is None:
                decoder.nothing_new(seen.lsn)
            else:
                if observation.republished or not observation.published <= slot.added:
                    slot.republished()
                decoder.observation(observation)
        for table, error in self._additions.refused():
            decoder.fail(table, error)
        self._stream.feedback(decoder.position, self._durable, reply=True)
        self._nudge(seen)
        if decoder.wants_mark and decoder.position >= self._marked_at:
            write_mark(self._control, self._replicator, HEARTBEAT, self._config.where)
            self._marked_at = seen.lsn + 1

    def _nudge(self, seen: Now) -> None:
        """The end of the log may be in the midst of what a transaction that stays open has written: a mark ends it."""
        assert self._control is not None
        decoder, clock = self._decoder, time.monotonic()
        if decoder.position >= seen.lsn or decoder.in_transaction or decoder.position > self._was_at:
            self._moved_at, self._was_at = clock, decoder.position
        elif clock - self._moved_at > _STALE:
            self._moved_at = clock
            write_mark(self._control, self._replicator, HEARTBEAT, self._config.where)

    def _heartbeat(self) -> Heartbeat:
        decoder = self._decoder
        return Heartbeat(None, None) if decoder.in_transaction else Heartbeat(decoder.offset(), decoder.as_of)


def _binary(catalog: PostgresCatalog, tables: TableSet, followed: Collection[TableId]) -> bool:
    """The server sends all values in binary or none: binary where each column of the followed tables has a decoder."""
    found = catalog.details(sorted(table for table in followed if table in tables)).values()
    return all(exact(one.schema, one.attributes) for one in found if not isinstance(one, TableError))


def log_failure(slot: str, text: str, state: str) -> TidemarkError:
    """What the server says where its log ends unexpectedly, with its SQLSTATE."""
    said = text.strip()
    if state == _NO_OBJECT or any(sign in said for sign in _GONE):
        return LogPurged(f"The source no longer has the log to resume from: {said}")
    if any(sign in said for sign in _UNREADABLE):
        return LogCorrupt(f"The source cannot decode its log: {said}", remedy=_ANOTHER_SLOT.format(slot=literal(slot)))
    if state in _UNTRANSLATABLE:
        return LogUnreadable(f"The source cannot send a text of its log: {said}", remedy=_CORRECT_TEXT)
    return SourceUnreachable(f"The source ended the stream of its log: {said}")
