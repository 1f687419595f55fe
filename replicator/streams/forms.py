"""A batch as clients get it: JSON, or Arrow's IPC streams, one after the other."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from replicator.model.change import Operation
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE, TXN_ID, UNCHANGED, TableSchema
from replicator.streams.cursor import CursorBatch, place_of
from replicator.streams.feed import StreamEvent
from replicator.streams.position import StreamPosition
from replicator.streams.rows import Rows

TABLE, EVENT = b"tidemark.table", b"tidemark.event"
Item = tuple[StreamPosition, Rows | StreamEvent]


def as_json(batch: CursorBatch) -> list[dict[str, Any]]:
    """Changes and events in order, each with its `position`, which only grows in a shard."""
    found: list[tuple[StreamPosition, dict[str, Any]]] = [
        (place_of(event), event_json(event)) for event in batch.events
    ]
    for rows in batch.rows:
        places = zip(rows.sequences.tolist(), rows.offsets.tolist(), strict=True)
        found += zip((StreamPosition(*place) for place in places), _changes(rows), strict=True)
    return [one | {"position": list(place)} for place, one in sorted(found, key=lambda pair: pair[0])]


def event_json(event: StreamEvent) -> dict[str, Any]:
    """What stands between rows."""
    fields = {"operation": event.kind, "sequence": event.sequence, "database": event.database, "table": event.name}
    at = event.commit_ts.isoformat() if event.commit_ts else None
    return fields | {"schema_version": event.schema_version, "commit_ts": at} | dict(event.detail)


def _changes(rows: Rows) -> Iterator[dict[str, Any]]:
    schema, version = rows.part.schema, rows.part.segment.schema_version
    plain = {name: _plain(rows.data.column(name).type) for name in rows.data.schema.names}
    columns = {name: rows.data.column(name).to_pylist() for name in rows.data.schema.names}
    whose = {"database": schema.table.database, "table": schema.table.name, "schema_version": version}
    for place in range(rows.data.num_rows):
        values = {name: plain[name](column[place]) for name, column in columns.items()}
        fields = {"operation": values[OPERATION], "sequence": values[SEQUENCE], **whose}
        fields |= {"commit_ts": values[COMMIT_TS], "transaction": values[TXN_ID], "key": list(schema.key)}
        yield fields | _images(values, schema)


def _images(values: dict[str, Any], schema: TableSchema) -> dict[str, Any]:
    """`after`, `before` and `unchanged` as far as the operation has them; an INSERT has `before` where a row came under
    a new key.
    """
    operation = values[OPERATION]
    before = {name: values[BEFORE + name] for name in schema.names}
    left_out = [schema.names[place] for place in values.get(UNCHANGED) or ()]
    found: dict[str, Any] = {}
    if operation != Operation.DELETE:
        found["after"] = {name: values[name] for name in schema.names if name not in left_out}
    if operation in {Operation.UPDATE, Operation.DELETE} or any(before[name] is not None for name in schema.key):
        found["before"] = before
    return found | ({"unchanged": left_out} if left_out else {})


def _plain(kind: pa.DataType) -> Callable[[Any], Any]:
    """Values as JSON has them: decimals and times are texts, bytes base64, and so are NaN and the infinities."""
    if pa.types.is_floating(kind):
        return lambda value: value if value is None or math.isfinite(value) else str(value)
    if pa.types.is_decimal(kind) or pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        return _text
    return lambda value: value


def _text(value: Any) -> str | None:
    match value:
        case None:
            return None
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return format(value, "f")
        case datetime() | date():
            return value.isoformat()
    return str(value)


def as_arrow(batch: CursorBatch) -> bytes:
    """IPC streams, one after the other: changes of one table and schema version each, or an event, in the order of
    their begins.

    A table's changes never lie in one stream with changes behind one of its events.  The total order is that of
    `_sequence_num`. The schema's metadata have `tidemark.table` (JSON) or, of an event, `tidemark.event` (JSON, and no
    columns).
    """
    sink = pa.BufferOutputStream()
    for _, item in sorted(_items(batch), key=lambda pair: pair[0]):
        data = _event_table(item) if isinstance(item, StreamEvent) else _row_table(item)
        with pa.ipc.new_stream(sink, data.schema) as stream:
            stream.write(data)
    return bytes(sink.getvalue())


def _items(batch: CursorBatch) -> Iterator[Item]:
    for event in batch.events:
        yield place_of(event), event
    for rows in batch.rows:
        cuts = sorted({rows.below(place_of(event)) for event in batch.events})
        ends = [*(cut for cut in cuts if 0 < cut < rows.data.num_rows), rows.data.num_rows]
        begins = [0, *ends[:-1]]
        for begin, end in zip(begins, ends, strict=True):
            yield StreamPosition(int(rows.sequences[begin]), int(rows.offsets[begin])), rows.between(begin, end)


def _row_table(rows: Rows) -> pa.RecordBatch:
    schema = rows.part.schema
    fields = {
        "database": schema.table.database,
        "table": schema.table.name,
        "schema_version": rows.part.segment.schema_version,
        "key": list(schema.key),
        "columns": list(schema.names),
    }
    return rows.data.replace_schema_metadata({TABLE: json.dumps(fields).encode()})


def _event_table(event: StreamEvent) -> pa.RecordBatch:
    nothing = pa.schema([], metadata={EVENT: json.dumps(event_json(event)).encode()})
    return pa.RecordBatch.from_arrays([], schema=nothing)
