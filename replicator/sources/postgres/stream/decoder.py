"""Messages of pgoutput in their order → messages of the port: transactions, rows, marks, schemas."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

import numpy as np

from replicator.errors import LogCorrupt, TableError
from replicator.model.change import (
    EVERY,
    ChangeBatch,
    Commit,
    Ddl,
    LogMessage,
    Notice,
    Settled,
    TableFailed,
    UndecodableRows,
    Watermark,
)
from replicator.model.identifiers import TableId
from replicator.sources.base import ReadOptions
from replicator.sources.postgres import watermark
from replicator.sources.postgres.catalog.attributes import is_partitioned
from replicator.sources.postgres.charset import Charset
from replicator.sources.postgres.ddl import event_trigger
from replicator.sources.postgres.log_identity import Past
from replicator.sources.postgres.offset import LastCommit, LsnOffset
from replicator.sources.postgres.rows.columns import exact
from replicator.sources.postgres.rows.row_messages import CommittedTransaction, TableRows, TupleLayout
from replicator.sources.postgres.stream.catalog_observer import CatalogSnapshot, Now
from replicator.sources.postgres.stream.message_runs import KnownRelations, RowMessageRun
from replicator.sources.postgres.stream.relations import Outcome, Relations
from replicator.sources.postgres.stream.streamed_transactions import StreamedTransactions
from replicator.sources.postgres.wire import messages as m
from replicator.sources.postgres.wire.frame_kernel import END, LAST, RECORD, STAMP, TIME, XID
from replicator.sources.postgres.xid_snapshot import InFlightTransactions, Snapshot
from replicator.sources.shared.date_policy import date_policy
from replicator.sources.shared.table_change import TableChange

_ROWS = frozenset(b"IUD")
_ANNOUNCING = frozenset(b"RYO")
_TELLING = frozenset(b"RTM")
_NOWHERE = (1 << 63) - 1
_MIN_ROWS, _MAX_BATCHES = 8_000, 4  # rows of a table that make a batch worth its while; batches' rows, of all tables
LARGE, UNMARKED = 16 << 20, 4 << 20  # bytes: of a last commit that is too much to read again, and of log behind one


class Marks(NamedTuple):
    """Whose marks are ours, and the relation whose rows they are if they are not messages (13)."""

    replicator: str
    oid: int | None = None


class NotInBinary(Exception):
    """A column came that has no decoder for its binary form."""


class Decoder:
    """`feed` takes messages; what they amount to is in `out`, which the caller empties."""

    def __init__(
        self,
        relations: Relations,
        options: ReadOptions,
        start: LsnOffset,
        replicator: str,
        created: Callable[[TableId], None],
        *,
        binary: bool = False,
        tells_empty: bool = False,
        key: bytes | None = None,
    ) -> None:
        """`binary`: the server sends values in binary form wherever it can.

        `tells_empty`: it also sends transactions without any change of ours.
        `key`: of the event trigger's messages.
        `created` is called before a table that came into the selection is reported: its changes must be in the log from
        here on.
        """
        self.out: list[LogMessage] = []
        self.relations, self._options, self._created = relations, options, created
        self.settling = InFlightTransactions(start.unsettled())
        self.position = start.lsn
        self.binary = binary
        self.repartitioned = (
            False  # may partitions be others since the stream began?  Until the reader has begun it again
        )
        self.charset: Charset | None = None  # of names and texts, where they do not come in UTF-8
        self.start, self._replicator = start.lsn, replicator
        self._past, self._last_commit = Past(start), start.last_commit
        self._size, self._large, self._tells_empty = 0, False, tells_empty
        self._key, self._forged = key, 0
        self._unmet: dict[bytes, m.Relation] = {}
        self._streamed = StreamedTransactions()
        self._announced: list[m.Relation] = []  # until the next message tells which of them its rows are of
        self._rows: dict[bytes, TableRows | None] = {}
        self._known: KnownRelations | None = None
        self._marks: dict[bytes, int] = {}
        self._ordinal = self._waiting_rows = self._waiting_bytes = 0
        self._spill_at = options.batch_rows  # rows at which to check whether a batch is due
        self.transaction: CommittedTransaction | None = None
        self._skipping = False
        self._committed_us: int | None = None
        self._uncommitted = False
        self._failed: dict[TableId, str] = {}
        self._nows: deque[Now] = deque()
        self._observations: deque[CatalogSnapshot] = deque()
        self.as_of: datetime | None = None
        self._looked = 0
        # Transactions that reported definitions, or may have, and are not known to be visible.
        self._blind = EVERY in start.unsettled()
        self._telling = {int(xid) for xid in start.unsettled() if xid != EVERY}

    @property
    def in_transaction(self) -> bool:
        return self.transaction is not None or self._streamed.inside

    @property
    def resumes_at(self) -> int:
        """Where the server must begin so that nothing is missed, and the past is recognised."""
        last = self._last_commit
        return last.record if self._past.awaited and last is not None else self.position

    @property
    def wants_mark(self) -> bool:
        """Should something be the last commit that costs less to keep and to read once more?"""
        last = self._last_commit
        if self.in_transaction or self._past.awaited:
            return False
        return last is None or self._large or self.position - last.record > UNMARKED

    @property
    def waiting(self) -> bool:
        """Is there anything that `boundary` would hand on?"""
        return self._uncommitted or bool(self._waiting_rows)

    def feed(self, payload: bytes) -> None:
        """One message.  LogCorrupt."""
        kind = payload[0]
        if self._streamed.inside:
            if kind == ord("E"):
                self._streamed.stop()
            else:
                self._streamed.add(payload)
            return
        if self._announced and kind not in _ANNOUNCING:
            self._relations(int.from_bytes(payload[1:5], "big") if kind in _ROWS else None)
        if kind in _ROWS:
            self._change(payload)
        else:
            self._other(kind, payload)

    def _change(self, payload: bytes) -> None:
        self._size += len(payload)
        try:
            rows = self._rows[payload[1:5]]
        except KeyError:
            self._unknown_row(payload)
            return
        if rows is None or self.transaction is None or self._skipping:
            return
        rows.add(payload, self._ordinal, self.transaction)
        self._ordinal += 1
        self._waiting_rows += 1
        self._waiting_bytes += len(payload)
        self._spill()

    def _unknown_row(self, payload: bytes) -> None:
        """Of a relation that was described only in what was read before, and is as it was since; or a mark."""
        name = payload[1:5]
        if name not in self._unmet:
            self._mark_row(payload)
        elif not self._skipping:
            self._relation(self._unmet[name])
            self._change(payload)

    def _spill(self) -> None:
        """Later where there are few rows of each of many tables: small batches are dear."""
        rows, options = self._waiting_rows, self._options
        if self._waiting_bytes < options.batch_bytes:
            if rows < self._spill_at:
                return
            tables = sum(1 for one in self._rows.values() if one is not None and one.rows)
            if rows < min(_MAX_BATCHES * options.batch_rows, _MIN_ROWS * tables):
                self._spill_at = rows + options.batch_rows // 4
                return
        self.flush()

    # ---- runs

    def known(self) -> KnownRelations | None:
        """Of which rows can be fed as a run now; None where messages have to come one by one."""
        if self._streamed.inside or self._skipping or self._announced or self._past.awaited:
            return None
        if self._known is None:
            self._known = KnownRelations(self._rows)
        return self._known

    @property
    def looks_at(self) -> int:
        """The next place of the log at which something that was seen of the source takes effect."""
        now = self._nows[0].lsn if self._nows else _NOWHERE
        return min(now, self._observations[0].now.lsn if self._observations else _NOWHERE)

    def feed_run(self, known: KnownRelations, run: RowMessageRun) -> None:
        """What `feed` does with each of these messages; it ends where the log is read up to `looks_at`.  LogCorrupt."""
        transactions = run.transactions
        if len(run.slots):
            self._size += self._add_rows(known, run)
        ended = transactions[: len(transactions) - run.open]
        if len(ended):
            self.settling.committed(ended[:, XID])
            self._committed_us = int(ended[-1, STAMP])
            self._uncommitted = True
            self._committed(LastCommit(*(int(ended[-1, column]) for column in (RECORD, XID, TIME))))
        self.transaction = None
        if run.open:
            self._begin(int(transactions[-1, XID]), int(transactions[-1, RECORD]), int(transactions[-1, TIME]))
        if len(ended):
            self.reached(int(ended[-1, LAST]))
        self._spill()

    def _add_rows(self, known: KnownRelations, run: RowMessageRun) -> int:
        """Their bytes."""
        ordinals = np.arange(self._ordinal, self._ordinal + len(run.slots))
        owners = np.repeat(np.arange(len(run.transactions)), np.diff(run.transactions[:, END], prepend=0))
        alone = bool((run.slots == run.slots[0]).all())
        for slot in [run.slots[0]] if alone else np.unique(run.slots).tolist():
            rows = known.rows[slot]
            assert rows is not None
            chosen = slice(None) if alone else np.flatnonzero(run.slots == slot)
            rows.add_run(
                run.data, run.begins[chosen], run.ends[chosen], ordinals[chosen], owners[chosen], run.transactions
            )
        self._ordinal += len(run.slots)
        self._waiting_rows += len(run.slots)
        size = int((run.ends - run.begins).sum())
        self._waiting_bytes += size
        return size

    def _other(self, kind: int, payload: bytes) -> None:
        if kind in _TELLING and self.transaction is not None:
            self._telling.add(self.transaction.xid)
        match chr(kind):
            case "B":
                xid, commit_us = m.begin(payload)
                self._begin(xid, m.number(payload, 1) << 32 | m.number(payload, 5), commit_us)
            case "C":
                self._end(m.commit(payload))
            case "R":
                self._announced.append(m.relation(payload, self.charset.name_of if self.charset else None))
            case "T":
                self._truncate(m.truncated(payload))
            case "M":
                self._note(m.note(payload))
            case "S":
                self._streamed.start(payload)
            case "A":
                self._streamed.abort(payload)
            case "c":
                self._stream_end(payload)
            case "Y" | "O":
                pass
            case _:
                raise LogCorrupt(f"Unexpected pgoutput message type {chr(kind)!r}.")

    # ---- transactions

    def _begin(self, xid: int, commit_record: int, commit_us: int) -> None:
        self.transaction = CommittedTransaction(xid, commit_us, commit_record)
        self._skipping = self._past.has(commit_record, xid, commit_us)

    def _committed(self, commit: LastCommit) -> None:
        """Note the last transaction that was read.

        Its size is not known exactly: it was among the bytes read since the one before.
        """
        self._last_commit, self._large, self._size = commit, self._size > LARGE, 0

    def _end(self, ending: m.Ending) -> None:
        transaction = self.transaction
        if transaction is None:
            raise LogCorrupt("The source's log ends a transaction that did not begin.")
        commit = LastCommit(transaction.record, transaction.xid, transaction.commit_us)
        if not self._skipping or commit == self._last_commit:
            self._committed(commit)
        if not self._skipping:
            self.settling.committed(np.array([transaction.xid], np.int64))
            self._committed_us = ending.commit_us
            self._uncommitted = True
        self.transaction, self._skipping = None, False
        self.reached(ending.end)

    def _stream_end(self, payload: bytes) -> None:
        """One without any change would not have come, had the server not had to make room (from 15): it is none of
        ours.
        """
        xid, ending = m.stream_commit(payload)
        if not (self._tells_empty or self._streamed.changes(xid)):
            self._streamed.forget(xid)
            self.reached(ending.end)
            return
        commit_record = m.number(payload, 6) << 32 | m.number(payload, 10)
        self._begin(xid, commit_record, ending.commit_us)
        for inner in self._streamed.commit(xid):
            self.feed(inner)
        self._end(ending)

    def reached(self, lsn: int) -> None:
        """The log was read up to here, a transaction's end; what was seen of the source by then holds from here on."""
        self._past.reached(lsn)
        self.position = max(self.position, lsn)
        while self._nows and self._nows[0].lsn <= self.position:
            self.as_of = self._nows.popleft().at
        if self.settling.reached(self.position):
            self.flush()
            self.out.append(Settled(self.settling.unsettled()))
        while self._observations and self._observations[0].now.lsn <= self.position:
            self._look(self._observations.popleft())

    def boundary(self) -> None:
        """Hand on what waits, up to the last transaction's end."""
        self.flush()
        stamp = None if self._committed_us is None else m.moment(self._committed_us)
        self.out.append(Commit(self.offset(), stamp))
        self._uncommitted = False

    def offset(self) -> LsnOffset:
        """Where reading can resume; for the end of a transaction only."""
        return LsnOffset(self.position, self.settling.names(), self._last_commit, self._looked)

    # ---- what the source shows beside its log

    def observed(self, now: Now) -> None:
        """What is visible; `as_of`, the time of the latest of which the log was read to its end."""
        self._nows.append(now)
        self.settling.observed(now.lsn, now.snapshot)
        if not self._observations:
            self._settle(now.snapshot)

    def observation(self, observation: CatalogSnapshot) -> None:
        """What the catalog shows; acted upon when the log was read up to there."""
        self._observations.append(observation)

    def nothing_new(self, lsn: int) -> None:
        """The catalog shows what is known here; it was looked at after the log's end was `lsn`."""
        if not self._observations:
            self._looked = max(self._looked, lsn)

    def _look(self, observation: CatalogSnapshot) -> None:
        """Apply an observation, unless it lacks definitions that the log already reported: a later one has them."""
        if self._blind and EVERY not in (unsettled := self.settling.unsettled()):
            self._blind = False
            self._telling |= set(map(int, unsettled))
        self._settle(observation.now.snapshot)
        if not (self._blind or self._telling):
            self._tell(
                self.relations.seen(observation.descriptions, observation.present), observation.now.at.timestamp()
            )
            self.relations.refuse(observation.refused, observation.present)
            self._looked = max(self._looked, observation.now.lsn)

    def _settle(self, snapshot: Snapshot) -> None:
        """What it shows, every observation that comes will show."""
        self._telling = {xid for xid in self._telling if not snapshot.shows(xid)}

    # ---- schemas

    def _relations(self, oid: int | None) -> None:
        """All that were announced; `oid`: whose rows come, if rows do.

        The last is a partition where they are those of the one before.

        So pgoutput tells them (`maybe_send_schema`): the table whose rows a partition's are, the partition, the rows as
        the table's.
        """
        announced, self._announced = self._announced, []
        leaf = announced.pop() if oid is not None and [one.oid for one in announced[-2:-1]] == [oid] else None
        for relation in announced:
            self._relation(relation)
        if leaf is not None and oid is not None and not self._skipping:  # else it may be gone, and known to be
            self.flush()
            self._tell(self.relations.met_partition(leaf, oid))

    def _relation(self, relation: m.Relation) -> None:
        name = relation.oid.to_bytes(4, "big")
        if TableId(relation.schema, relation.name) == watermark.watermark_table():
            self._marks[name] = len(relation.columns)
            return
        self._unmet.pop(name, None)
        if self._skipping:  # it may have changed since, as far as is known already
            self._unmet[name] = relation
            return
        self.flush()
        self._tell(self.relations.met(relation))
        layout = self.relations.layouts[relation.oid]
        if layout and self.binary and not exact(layout.schema, layout.attributes):
            raise NotInBinary(f"{layout.schema.table} has a column without a decoder for its binary form")
        self._gather_in(name, self._gathering(layout) if layout else None)

    def _tell(self, outcomes: Iterable[Outcome], at: float | None = None) -> None:
        for outcome in outcomes:
            if isinstance(outcome, TableChange):
                self._change_schema(outcome, at)
            else:
                self.fail(*outcome)
        for name in [name for name, rows in self._rows.items() if rows is not None]:
            self._called_as_known(name)

    def _called_as_known(self, name: bytes) -> None:
        """Rows that come through the root of their partitions are not announced again when it is renamed."""
        layout = self.relations.renamed(int.from_bytes(name, "big"))
        if layout is not None:
            self._gather_in(name, self._gathering(layout))

    def _gathering(self, layout: TupleLayout) -> TableRows:
        return TableRows(
            layout, date_policy(self._options), keep_undecodable=self._options.keep_undecodable, charset=self.charset
        )

    def _gather_in(self, name: bytes, rows: TableRows | None) -> None:
        self._rows[name] = rows
        self._known = None

    def _change_schema(self, step: TableChange, at: float | None) -> None:
        self.flush()
        self._failed.pop(step.new_table or step.table, None)
        if step.operation is Ddl.CREATE_TABLE:
            try:
                self._created(step.table)
            except TableError as error:
                self.fail(step.table, error)
                return
        stamp = self.transaction.commit_us if self.transaction else None if at is None else int(at * 1_000_000)
        self.out.append(step.at(self._ordinal, self.offset(), None if stamp is None else m.moment(stamp)))
        self._ordinal += 1
        self._uncommitted = True
        self.repartitioned |= step.schema is not None and is_partitioned(step.schema)

    def forget_streamed(self) -> None:
        """Drop the open transactions of a stream: the next stream sends them once more."""
        self._streamed.close()

    def _truncate(self, oids: list[int]) -> None:
        for oid in oids:
            table = self.relations.table(oid)
            if table is not None and not self._skipping:
                self._change_schema(TableChange(Ddl.TRUNCATE_TABLE, table, text=f"TRUNCATE {table}"), None)

    def fail(self, table: TableId, error: TableError) -> None:
        """Skip the table from here on (invariant 7).  The same error is reported once."""
        self.relations.fail(table)
        for name, rows in self._rows.items():
            if rows is not None and rows.layout.schema.table == table:
                self._gather_in(name, None)
        if self._failed.get(table) == error.message:
            return
        self._failed[table] = error.message
        self.out.append(TableFailed(table, error, self.offset()))
        self._uncommitted = True

    # ---- marks

    def _note(self, note: m.Note) -> None:
        """Handle a logical message, which any session may write.

        Ours are transactional, definitions are signed, and a mark's token is known to its reader only.
        """
        transaction = self.transaction
        if transaction is None or self._skipping or not note.transactional:
            return
        if note.prefix == event_trigger.PREFIX:
            definition = event_trigger.logged_definition(note.content, self._key, transaction.xid)
            if definition is None:
                self._forgery()
                return
            self.flush()
            self._tell(self.relations.redefine(definition))
        elif note.prefix == watermark.PREFIX and len(note.content) <= watermark.MAX_BYTES:
            self._mark(watermark.token_of(note.content.decode("utf-8", "replace"), self._replicator))

    def _forgery(self) -> None:
        """Count it; report the first, tenth, hundredth …"""
        self._forged += 1
        if self._forged == 10 ** (len(str(self._forged)) - 1):
            text = (
                f"{self._forged:,} schema message{'' if self._forged == 1 else 's'} ignored: not signed by Tidemark's"
                " event trigger, or its key is not readable. Schema changes are detected with the next row instead. If"
                f" the trigger belongs to another role: GRANT USAGE ON SCHEMA {watermark.SCHEMA}, SELECT ON"
                f" {event_trigger.KEY_TABLE} to the role of the connection."
            )
            self.out.append(Notice(text))

    def _mark_row(self, payload: bytes) -> None:
        """13: a row of the watermark table."""
        columns = self._marks.get(payload[1:5])
        if columns is None:
            raise LogCorrupt("The source's log has rows of a table that it did not describe.")
        if payload[:1] != b"D" and not self._skipping:
            row = m.mark_row(payload)
            if row is not None and row[0] == self._replicator:
                self._mark(row[1])

    def _mark(self, token: str | None) -> None:
        """Emit a mark, which is not a change and takes no ordinal."""
        if token is not None:
            self.flush()
            self.out.append(Watermark(token, self.offset()))
            self._uncommitted = True

    # ---- rows

    def flush(self) -> None:
        """All rows that wait, as batches."""
        if not self._waiting_rows:
            return
        self._waiting_rows = self._waiting_bytes = 0
        self._spill_at = self._options.batch_rows
        for rows in [rows for rows in self._rows.values() if rows is not None and rows.rows]:
            table = rows.layout.schema.table
            try:
                data = rows.take()
            except TableError as error:
                self.fail(table, error)
                continue
            if rows.undecodable:
                self.out.append(UndecodableRows(table, tuple(rows.undecodable), self.offset()))
            if data.num_rows:
                self.out.append(ChangeBatch(table, rows.layout.schema, data, rows.zero_dates))

    def close(self) -> None:
        """Give up what was not handed on."""
        self._streamed.close()
