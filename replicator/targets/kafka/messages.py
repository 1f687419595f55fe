"""Changes as messages: keys and values in bytes or text, in JSON or Avro, as Debezium's envelope or flat."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from replicator.errors import TableError
from replicator.model.schema import COMMIT_TS, OFFSET, SEQUENCE, TXN_ID, TableSchema
from replicator.targets.kafka import avro
from replicator.targets.kafka.avro import OWN
from replicator.targets.kafka.config import KafkaConfig
from replicator.targets.kafka.events import DELETE, READ, TRUNCATE, Events
from replicator.targets.kafka.json_text import NULL, TEXT, chosen, joined, members, objects, quoted, values

Text = str | bytes
MILLISECONDS = pa.timestamp("ms", tz="UTC")


@dataclass(frozen=True)
class MessageContext:
    """Whose messages they are.

    `connector`: the source's kind as Debezium calls it; `name`: the replicator; `version`: the schema's.
    """

    connector: str
    name: str
    topic: str
    schema: TableSchema
    version: int


class Encoder(ABC):
    """Of one table under one schema."""

    own: ClassVar[Sequence[str]] = ()

    def __init__(self, subject: MessageContext) -> None:
        """TableError where a column has a name that the form needs."""
        self.subject = subject
        if taken := sorted(set(self.own) & set(subject.schema.names)):
            message = f"The column {taken[0]} of {subject.schema.table} has a name that is reserved in flat messages."
            raise TableError(
                message, table=str(subject.schema.table), remedy="Use the Debezium envelope, or exclude the column."
            )

    def messages(self, events: Events, now: int) -> Iterator[tuple[Text | None, Text, str]]:
        """Key (None without one), value and operation of each; `now` in milliseconds."""
        return zip(self._keys(events), self._values(events, now), events.op, strict=True)

    @abstractmethod
    def truncated(self, sequence: int, now: int) -> Text:
        """The value that says: rows with a smaller sequence number are gone."""

    @abstractmethod
    def _keys(self, events: Events) -> list[Text | None]: ...

    @abstractmethod
    def _values(self, events: Events, now: int) -> list[Text]: ...


def encoder(config: KafkaConfig, subject: MessageContext) -> Encoder:
    """As the target's settings have it."""
    return _ENCODERS[config.format, config.envelope](subject)


class _Json(Encoder):
    def _keys(self, events: Events) -> list[Text | None]:
        if not events.key.num_columns:
            return [None] * len(events.op)
        keys: list[Text | None] = objects(events.key).to_pylist()
        return keys


class JsonEnvelope(_Json):
    """`{"before": …, "after": …, "source": {…}, "op": "u", "ts_ms": …}`."""

    def _values(self, events: Events, now: int) -> list[Text]:
        found: list[Text] = joined(
            '{"before":',
            chosen(pa.array(events.has_before), objects(events.before)),
            ',"after":',
            chosen(pa.array(events.has_after), objects(events.after)),
            ',"source":',
            self._source(events),
            ',"op":"',
            pa.array(events.op, TEXT),
            f'","ts_ms":{now}}}',
        ).to_pylist()
        return found

    def truncated(self, sequence: int, now: int) -> Text:
        source = f'{self._opening}null,"snapshot":"false"{self._table}{sequence},"txId":null,"offset":null}}'
        return f'{{"before":null,"after":null,"source":{source},"op":"{TRUNCATE}","ts_ms":{now}}}'

    @property
    def _opening(self) -> str:
        return f'{{"connector":{quoted(self.subject.connector)},"name":{quoted(self.subject.name)},"ts_ms":'

    @property
    def _table(self) -> str:
        table = self.subject.schema.table
        named = f',"db":{quoted(table.database)},"table":{quoted(table.name)}'
        return f'{named},"schema_version":{self.subject.version},"sequence":'

    def _source(self, events: Events) -> pa.Array:
        about = events.about
        snapshot = pc.if_else(
            pa.array([op == READ for op in events.op]), pa.scalar("true", TEXT), pa.scalar("false", TEXT)
        )
        parts: list[pa.Array | str] = [
            self._opening,
            _milliseconds(about),
            ',"snapshot":"',
            snapshot,
            f'"{self._table}',
            values(about.column(SEQUENCE)),
            ',"txId":',
            values(about.column(TXN_ID)),
            ',"offset":',
            values(about.column(OFFSET)),
        ]
        if events.unchanged is not None:
            parts += [',"unchanged":', _lists(events.unchanged)]
        return joined(*parts, "}")


class JsonFlat(_Json):
    """The row's columns (of a delete: those before it), and `__op`, `__sequence`, `__ts`, `__deleted`."""

    own = OWN

    def _values(self, events: Events, now: int) -> list[Text]:
        del now
        row = _either(events)
        parts: list[pa.Array | str] = [
            "{",
            *members(row),
            ',"__op":"',
            pa.array(events.op, TEXT),
            '","__sequence":',
            values(events.about.column(SEQUENCE)),
            ',"__ts":',
            _milliseconds(events.about),
            ',"__deleted":',
            values(pa.array([op == DELETE for op in events.op])),
        ]
        if events.unchanged is not None:
            parts += [',"__unchanged":', _lists(events.unchanged)]
        found: list[Text] = joined(*parts, "}").to_pylist()
        return found

    def truncated(self, sequence: int, now: int) -> Text:
        return f'{{"__op":"{TRUNCATE}","__sequence":{sequence},"__ts":{now},"__deleted":true}}'


class _Avro(Encoder):
    def __init__(self, subject: MessageContext) -> None:
        super().__init__(subject)
        schema = subject.schema
        self._columns = list(schema.columns)
        self._key_columns = [schema.column(name) for name in schema.key]
        self._names = [field["name"] for field in avro.fields(self._columns)]
        self._key = avro.key_schema(schema, subject.topic)

    def _keys(self, events: Events) -> list[Text | None]:
        if self._key is None:
            return [None] * len(events.op)
        names = [field["name"] for field in self._key.raw["fields"]]
        return [self._key.encoded(row) for row in avro.rows(events.key, self._key_columns, names)]


class AvroEnvelope(_Avro):
    def __init__(self, subject: MessageContext) -> None:
        """See `Encoder`."""
        super().__init__(subject)
        self._schema = avro.envelope_schema(subject.schema, subject.topic)
        self._row = f"{self._schema.raw['namespace']}.Row"  # says which branch of the union, so that none is guessed

    def _values(self, events: Events, now: int) -> list[Text]:
        rows = zip(
            avro.rows(events.before, self._columns, self._names),
            avro.rows(events.after, self._columns, self._names),
            events.has_before,
            events.has_after,
            events.op,
            self._sources(events),
            strict=True,
        )
        return [
            self._schema.encoded(
                {
                    "before": (self._row, before) if has_before else None,
                    "after": (self._row, after) if has_after else None,
                    "source": source,
                    "op": op,
                    "ts_ms": now,
                }
            )
            for before, after, has_before, has_after, op, source in rows
        ]

    def truncated(self, sequence: int, now: int) -> Text:
        source = self._source(sequence, None, None, None, "false", [])
        return self._schema.encoded({"before": None, "after": None, "source": source, "op": TRUNCATE, "ts_ms": now})

    def _sources(self, events: Events) -> Iterator[dict[str, Any]]:
        about = [
            events.about.column(SEQUENCE).to_pylist(),
            events.about.column(COMMIT_TS).cast(MILLISECONDS, safe=False).cast(pa.int64()).to_pylist(),
            events.about.column(TXN_ID).to_pylist(),
            events.about.column(OFFSET).to_pylist(),
            ["true" if op == READ else "false" for op in events.op],
            events.unchanged or [[]] * len(events.op),
        ]
        return (self._source(*one) for one in zip(*about, strict=True))

    def _source(self, *about: Any) -> dict[str, Any]:
        sequence, ts_ms, transaction, offset, snapshot, unchanged = about
        table = self.subject.schema.table
        return {
            "connector": self.subject.connector,
            "name": self.subject.name,
            "ts_ms": ts_ms,
            "snapshot": snapshot,
            "db": table.database,
            "table": table.name,
            "schema_version": self.subject.version,
            "sequence": sequence,
            "txId": transaction,
            "offset": offset,
            "unchanged": unchanged,
        }


class AvroFlat(_Avro):
    own = OWN

    def __init__(self, subject: MessageContext) -> None:
        """See `Encoder`."""
        super().__init__(subject)
        self._schema = avro.flat_schema(subject.schema, subject.topic)

    def _values(self, events: Events, now: int) -> list[Text]:
        del now
        about = zip(
            avro.rows(_either(events), self._columns, self._names),
            events.op,
            events.about.column(SEQUENCE).to_pylist(),
            events.about.column(COMMIT_TS).cast(MILLISECONDS, safe=False).cast(pa.int64()).to_pylist(),
            events.unchanged or [[]] * len(events.op),
            strict=True,
        )
        return [
            self._schema.encoded(row | self._about(op, sequence, ts, unchanged))
            for row, op, sequence, ts, unchanged in about
        ]

    def truncated(self, sequence: int, now: int) -> Text:
        row = dict.fromkeys(self._names)
        return self._schema.encoded(row | self._about(TRUNCATE, sequence, now, []) | {"__deleted": True})

    @staticmethod
    def _about(op: str, sequence: int, ts: int | None, unchanged: list[str]) -> dict[str, Any]:
        return {"__op": op, "__sequence": sequence, "__ts": ts, "__deleted": op == DELETE, "__unchanged": unchanged}


def schema_record(
    subject: MessageContext, config: KafkaConfig, renamed: Mapping[str, str], begins: int
) -> dict[str, Any]:
    """What the topic of schemas says of a table's version: its columns, and how its messages are read where they are
    Avro.

    renamed: old name → new one, of the columns that got theirs with this version.  begins: the sequence number from
    which it holds: a table that is made again has its versions from 1 again.
    """
    schema = subject.schema
    record: dict[str, Any] = {
        "topic": subject.topic,
        "db": schema.table.database,
        "table": schema.table.name,
        "version": subject.version,
        "begins": begins,
        "key": list(schema.key),
        "columns": [
            {"name": c.name, "type": str(c.type), "nullable": c.nullable, "source_type": c.source_type}
            for c in schema.columns
        ],
        "renamed": dict(renamed),
    }
    if config.format == "avro":
        value = (avro.envelope_schema if config.envelope == "debezium" else avro.flat_schema)(schema, subject.topic)
        found = [one for one in (avro.key_schema(schema, subject.topic), value) if one is not None]
        record["avro"] = {one.fingerprint: one.raw for one in found}
    return record


def _either(events: Events) -> pa.RecordBatch:
    """The row after, and of a delete the one before."""
    after = pa.array(events.has_after)
    arrays = [pc.if_else(after, new, old) for new, old in zip(events.after.columns, events.before.columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=events.after.schema.names)


def _milliseconds(about: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(about.column(COMMIT_TS).cast(MILLISECONDS, safe=False).cast(pa.int64()).cast(TEXT), NULL)


def _lists(names: list[list[str]]) -> pa.Array:
    return pa.array([json.dumps(one, ensure_ascii=False) for one in names], TEXT)


_ENCODERS: dict[tuple[str, str], type[Encoder]] = {
    ("json", "debezium"): JsonEnvelope,
    ("json", "flat"): JsonFlat,
    ("avro", "debezium"): AvroEnvelope,
    ("avro", "flat"): AvroFlat,
}
