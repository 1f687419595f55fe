"""What the journal has for a stream, as `replicator.streams` takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from django.db.models import Q

from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.state.journal import EventKind, SegmentKind
from replicator.state.tables import TableState
from replicator.streams.feed import LOAD, StreamEvent, StreamSegment, Stretch
from replicator.streams.position import StreamPosition
from webapp.replicators.journal import segment_of
from webapp.replicators.models import (
    ChunkRow,
    Replicator,
    ReplicatorTable,
    RunState,
    SchemaVersion,
    SegmentRow,
    SnapshotRun,
    TableEventRow,
)
from webapp.streams.carried import carried
from webapp.streams.models import KeylessPlace, Stream

SEGMENTS, EVENTS = 400, 1000  # looked at for one batch
END = 2**62
TOLD = ("renamed_columns", "new", "below", "statement", "reload")


@dataclass(frozen=True)
class _Load:
    """Of a table without key: its changes from `start` to `base` are covered, and its chunk lies at `place`."""

    start: int
    base: int
    place: int
    end: int  # the begin of the next load


@dataclass
class _Look:
    """One look at the journal.

    `upto` only gets smaller; `since`: the stream's tables, and from where on they are in it.
    """

    stream: Stream
    shard: int
    since: Mapping[int, int]
    start: int
    upto: int
    tables: dict[int, ReplicatorTable] = field(default_factory=dict)
    loads: dict[int, list[_Load]] = field(default_factory=dict)
    names: dict[int, list[tuple[int, TableId]]] = field(default_factory=dict)

    def name(self, table: int, sequence: int) -> TableId:
        """What the table was called then."""
        left = [name for renamed, name in self.names.get(table, []) if renamed > sequence]
        return left[0] if left else self.tables[table].table_id


def captured(stream: Stream) -> int:
    """All changes below this sequence number are in the journal."""
    return Replicator.objects.values_list("next_sequence", flat=True).get(pk=stream.replicator_id)


def stretch_of(stream: Stream, start: StreamPosition, shard: int) -> Stretch:
    """From `start` on; a part of it where there is much.

    What is captured is asked first: all of that is there afterwards.
    """
    end = captured(stream)
    look = _Look(stream, shard, carried(stream), start.sequence, end)
    look.tables = {one.pk: one for one in ReplicatorTable.objects.filter(pk__in=look.since)}
    runs = list(
        SnapshotRun.objects.filter(table__in=look.since, fresh=True).order_by("table_id", "start_sequence", "id")
    )
    if shard == 0:
        _settle_keyless(look, runs)
    segments, events = _segments(look), _events(look)
    _note_names(look)
    schemas = _schemas(segments, events)
    parts = tuple(part for row in segments for part in _part(look, row, schemas))
    given = [*_loads_of(look, runs), *(_event(event, schemas) for event in events)]
    return Stretch(parts, tuple(one for one in given if one.sequence < look.upto), look.upto, more=look.upto < end)


def _settle_keyless(look: _Look, runs: Sequence[SnapshotRun]) -> None:
    """A table without key is loaded as of one place of the log, `base`, which is known when its one chunk is admitted.

    Until then the shard waits before the table's first change within the load: those up to `base` are not given, and
    the chunk comes before those behind it.
    """
    chunks = {one.run_id: one for one in ChunkRow.objects.filter(run__in=[run.pk for run in runs], keyless=True)}
    for run, following in pairwise([*runs, None]):
        assert run is not None
        table, chunk = look.tables[run.table_id], chunks.get(run.pk)
        if run.open and table.keyless and table.state == TableState.LOADING.value:
            first = _first_change(table, run.start_sequence)
            look.upto = look.upto if first is None else min(look.upto, first)
        elif run.state == RunState.DONE and chunk is not None and chunk.base_sequence is not None:
            same = following is not None and following.table_id == run.table_id
            end = following.start_sequence if following is not None and same else END
            load = _Load(run.start_sequence, chunk.base_sequence, _place(run, table, chunk.base_sequence), end)
            look.loads.setdefault(run.table_id, []).append(load)


def _place(run: SnapshotRun, table: ReplicatorTable, base: int) -> int:
    """Kept: when the segments by which it was found are deleted, nothing may lie elsewhere."""
    known = KeylessPlace.objects.filter(run=run).first()
    if known is None:
        first = _first_change(table, base + 1)
        place = END if first is None else first
        chunks = SegmentRow.objects.filter(table=table, kind=SegmentKind.CHUNK.value, first_sequence__gt=base)
        begins = chunks.order_by("first_sequence").values_list("first_sequence", flat=True).first()
        place = min(place, END if begins is None else begins)
        known, _ = KeylessPlace.objects.get_or_create(run=run, defaults={"place": place})
    return known.place


def _first_change(table: ReplicatorTable, since: int) -> int | None:
    """Not behind the first of the table's changes in the log from `since` on; None for none."""
    rows = SegmentRow.objects.filter(table=table, kind=SegmentKind.LOG.value, last_sequence__gte=since)
    first = rows.order_by("first_sequence").values_list("first_sequence", flat=True).first()
    return None if first is None else max(first, since)


def _segments(look: _Look) -> list[SegmentRow]:
    """Return segments in order; where there are many more, `upto` is before the first that is left out.

    Chunks of keyless loads, which have their own place, are added.
    """
    there = SegmentRow.objects.filter(table__in=look.since, last_sequence__gte=look.start)
    placed, loads = Q(pk__in=[]), [(table, load) for table, found in look.loads.items() for load in found]
    for table, load in loads:
        placed |= Q(
            table=table, kind=SegmentKind.CHUNK.value, first_sequence__gte=load.start, first_sequence__lt=load.end
        )
    usual = there.exclude(placed) if loads else there
    rows = list(usual.filter(first_sequence__lt=look.upto).order_by("first_sequence", "id")[: SEGMENTS + 1])
    if len(rows) > SEGMENTS:
        look.upto = min(look.upto, rows.pop().first_sequence)
    return rows + (list(there.filter(placed).order_by("first_sequence")) if loads else [])


def _events(look: _Look) -> list[TableEventRow]:
    """In order, bounded as segments are.  Those of a database are in streams that carry every table."""
    whose = Q(table__in=look.since)
    if look.stream.every_table:
        whose |= Q(table=None, name="")
    found = TableEventRow.objects.filter(
        whose, replicator=look.stream.replicator_id, sequence__gte=look.start, sequence__lt=look.upto
    )
    rows = list(found.order_by("sequence")[: EVENTS + 1])
    if len(rows) > EVENTS:
        look.upto = min(look.upto, rows.pop().sequence)
    return [row for row in rows if row.table_id is None or row.sequence >= look.since[row.table_id]]


def _note_names(look: _Look) -> None:
    kind = EventKind.RENAME_TABLE.value
    renames = TableEventRow.objects.filter(table__in=look.since, kind=kind, sequence__gte=look.start)
    for row in renames.order_by("sequence"):
        look.names.setdefault(row.table_id or 0, []).append((row.sequence, TableId(row.database, row.name)))


def _schemas(segments: Iterable[SegmentRow], events: Iterable[TableEventRow]) -> dict[tuple[int, int], TableSchema]:
    pairs = {(one.table_id, one.schema_version) for one in segments}
    pairs |= {(one.table_id, one.schema_version) for one in events if one.table_id and one.schema_version}
    wanted = {"table__in": {table for table, _ in pairs}, "version__in": {version for _, version in pairs}}
    rows = SchemaVersion.objects.filter(**wanted)
    return {(row.table_id, row.version): row.parsed for row in rows if (row.table_id, row.version) in pairs}


def _part(look: _Look, row: SegmentRow, schemas: Mapping[tuple[int, int], TableSchema]) -> list[StreamSegment]:
    """None where it has nothing for the shard."""
    schema = schemas[row.table_id, row.schema_version]
    if row.first_sequence < look.since[row.table_id] or (look.shard and not schema.key):
        return []
    name = look.name(row.table_id, row.first_sequence)
    segment = segment_of(name, row)
    above, place = -1, None
    for load in look.loads.get(row.table_id, ()):
        if load.start <= row.last_sequence < load.end:
            above = load.base
            place = load.place if segment.kind is SegmentKind.CHUNK else None
    return [StreamSegment(row.table_id, segment, replace(schema, table=name), above, place)]


def _loads_of(look: _Look, runs: Iterable[SnapshotRun]) -> list[StreamEvent]:
    """At each begin of a load: what was given of the table before is void."""
    found = {}
    for run in runs:
        begins = run.start_sequence
        if max(look.start, look.since[run.table_id]) <= begins < look.upto:
            name = look.name(run.table_id, begins)
            detail = {"below": begins}
            found[run.table_id, begins] = StreamEvent(
                run.table_id, name.database, name.name, begins, LOAD, detail=detail
            )
    return list(found.values())


def _event(row: TableEventRow, schemas: Mapping[tuple[int, int], TableSchema]) -> StreamEvent:
    detail = {name: row.detail[name] for name in TOLD if row.detail.get(name)}
    schema = schemas.get((row.table_id or 0, row.schema_version or 0))
    if schema is not None:
        described = schema.to_dict()
        detail["schema"] = {"columns": described["columns"], "key": described["key"]}
    return StreamEvent(
        row.table_id, row.database, row.name, row.sequence, row.kind, row.schema_version, row.commit_ts, detail
    )
