"""The capture job: what has been committed goes into the change tables, a moment later, as SQL Server puts it there.

What is as documented ("What is change data capture (CDC)?", "cdc.<capture_instance>_CT (Transact-SQL)"): one commit LSN
per transaction, a sequence value per change, operations 1 to 4, an UPDATE of a key as DELETE and INSERT under one
sequence value, the mask, NULL for large values that an UPDATE has not changed, NULL for computed and for dropped
columns, a column's new type in the change table, DDL in cdc.ddl_history.

Habits that no page promises, and that real servers have, are switches (table ss.habits):

    seqval_disorder   sequence values do not rise from one statement of a transaction to the next
    unordered         rows lie in the change table in another order than they were changed
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg

from testing.servers.sqlserver.cdc.functions import functions
from testing.servers.sqlserver.cdc.output import Change, Relation, Row, Transaction, transactions

AT_ONCE = 20_000
DATETIME_OF_2000 = 36_524 * 25_920_000  # days since 1900 in 1/300 s
IDLE_SECONDS = 300.0
MEANWHILE = 1 << 20  # bytes of the log
_OLD_LOBS = frozenset({"text", "ntext", "image"})


def lsn10(place: int, slot: int = 1) -> bytes:
    """A place of Postgres' log as SQL Server has it; `ss.lsn` is the same."""
    return ((place >> 32) + 42).to_bytes(4, "big") + (place & 0xFFFFFFFF).to_bytes(4, "big") + slot.to_bytes(2, "big")


def moment(committed: int) -> int:
    """Microseconds since 2000 as datetime has them."""
    return DATETIME_OF_2000 + round(committed * 3 / 10_000)


@dataclass
class Captured:
    """A column of a capture instance."""

    name: str
    kind: str
    large: bool
    gone: bool


@dataclass
class Instance:
    name: str
    table: str
    change_table: int
    source: int
    start_lsn: bytes
    net: bool
    columns: list[Captured] = field(default_factory=list)
    key: frozenset[str] = frozenset()


class CaptureJob(threading.Thread):
    """Of one database.  `seconds`: between two scans.  `error`: what the last scan ended with."""

    def __init__(self, database: str, connect: Callable[[], psycopg.Connection[Any]], seconds: float) -> None:
        super().__init__(name=f"capture {database}", daemon=True)
        self.database, self.seconds, self.error = database, seconds, ""
        self._connect = connect
        self._ended = threading.Event()
        self._relations: dict[int, Relation] = {}
        self._marked, self._read = time.monotonic(), 0

    def stop(self) -> None:
        """Returns when it has."""
        self._ended.set()
        self.join(20)

    def run(self) -> None:
        connection: psycopg.Connection[Any] | None = None
        while not self._ended.wait(self.seconds):
            try:
                connection = connection or self._connect()
                while self._scan(connection) and not self._ended.is_set():
                    pass
                self.error = ""
            except Exception as error:  # noqa: BLE001 - the next scan begins where this one did
                self.error = str(error)
                print(f"capture of {self.database}: {type(error).__name__}: {error}", flush=True)
                if connection is not None:
                    with suppress(psycopg.Error):
                        connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def _scan(self, connection: psycopg.Connection[Any]) -> bool:
        """Is there more?"""
        running = connection.execute(
            "SELECT j.running AND NOT ss.database_flags((SELECT oid FROM pg_database WHERE datname = 'master')) ?"
            " 'agent_stopped'"
            " FROM ss.jobs j WHERE j.kind = 'capture'"
        ).fetchone()  # fmt: skip
        if running is None or not running[0]:
            return False
        slot, end = slot_name(connection), _log_end(connection)
        rows = connection.execute(
            "SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1',"
            " 'publication_names', 'cdc', 'messages', 'true')",
            (slot, AT_ONCE),
        ).fetchall()
        if not rows:
            self._idle(connection, slot, end)
            return False
        (done,) = connection.execute("SELECT lsn - '0/0' FROM ss.done").fetchone() or (0,)
        found = list(transactions(rows, self._relations))
        fresh = [one for one in found if one.end > int(done)]
        with connection.transaction():
            connection.execute("LOCK TABLE ss.captures IN SHARE MODE")  # instances neither come nor go meanwhile
            writer = Writer(connection)
            for one in fresh:
                writer.write(one)
            writer.flush()
            end = found[-1].end
            connection.execute("UPDATE ss.done SET lsn = greatest(lsn, '0/0'::pg_lsn + %s)", (end,))
        connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", (slot, end))
        return len(rows) >= AT_ONCE

    def _idle(self, connection: psycopg.Connection[Any], slot: str, end: int) -> None:
        """An entry without a transaction, now and then ("cdc.lsn_time_mapping", tran_id 0x00).

        What other databases have written is not to be read each time: up to `end` there was nothing for this one.
        """
        if end > self._read + MEANWHILE:
            connection.execute("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", (slot, end))
            self._read = end
        if time.monotonic() - self._marked > IDLE_SECONDS:
            self._marked = time.monotonic()
            connection.execute(
                "INSERT INTO cdc.lsn_time_mapping SELECT ss.lsn(pg_current_wal_insert_lsn()), ss.getdate(),"
                " ss.getdate(), '\\x00'::bytea ON CONFLICT DO NOTHING"
            )


def _log_end(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    assert row is not None
    return int(row[0])


def slot_name(connection: psycopg.Connection[Any]) -> str:
    """Of the connection's database."""
    row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return f"cdc_{row[0]}"


class Writer:
    """Of one scan: rows of change tables, until they are flushed."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.habits = {name for (name,) in connection.execute("SELECT name FROM ss.habits").fetchall()}
        self._instances = instances(connection)
        self._rows: dict[str, list[list[Any]]] = {}

    def write(self, one: Transaction) -> None:
        """Its changes of captured tables; nothing where there are none."""
        lsn, commands = lsn10(one.lsn), _commands(one.changes)
        sequence = self._sequence(one.changes, commands)
        touched = False
        for at, change in enumerate(one.changes):
            if change.operation == "M":
                if change.prefix == "ddl":
                    touched |= self._definition(json.loads(change.content), one, lsn, lsn10(change.lsn, 1))
                continue
            assert change.relation is not None
            for instance in self._instances.get(change.relation.oid, ()):
                if instance.start_lsn < lsn:
                    touched |= self._change(instance, change, lsn, sequence[at], commands[at])
        if touched:
            times = moment(one.committed)
            self._connection.execute(
                "INSERT INTO cdc.lsn_time_mapping VALUES (%b::bytea, %s::int8::ss.datetime, %s::int8::ss.datetime,"
                " %b::bytea, %b::bytea) ON CONFLICT DO NOTHING",
                (lsn, times, times, one.xid.to_bytes(6, "big"), lsn),
            )

    def _sequence(self, changes: list[Change], commands: list[int]) -> list[bytes]:
        """A value per change; they rise with the changes, or by the habit within a statement only."""
        slots: dict[int, int] = {}
        values = []
        for change in changes:
            slots[change.lsn] = slots.get(change.lsn, 1) + 1
            values.append(lsn10(change.lsn, slots[change.lsn]))
        if "seqval_disorder" not in self.habits:
            return values
        order = sorted(range(len(changes)), key=lambda at: (commands[at] // 2, -commands[at], at))
        made = list(values)
        for place, at in enumerate(order):
            made[at] = values[place]
        return made

    def _change(self, instance: Instance, change: Change, lsn: bytes, sequence: bytes, command: int) -> bool:
        assert change.relation is not None
        places = {name: at for at, name in enumerate(change.relation.columns)}
        old, new = _captured(instance, places, change.old), _captured(instance, places, change.new)
        every = (1 << len(instance.columns)) - 1
        if change.operation == "I":
            self._row(instance, lsn, sequence, 2, every, new, command)
            return True
        if change.operation == "D":
            self._row(instance, lsn, sequence, 1, every, _without(instance, old), command)
            return True
        assert change.old is not None
        assert change.new is not None
        if change.old == change.new:
            return False
        if any(change.old[places[name]] != change.new[places[name]] for name in instance.key if name in places):
            self._row(instance, lsn, sequence, 1, every, _without(instance, old), command)
            self._row(instance, lsn, sequence, 2, every, new, command)
            return True
        mask = sum(1 << at for at, (before, after) in enumerate(zip(old, new, strict=True)) if before != after)
        before = [
            None if one.kind in _OLD_LOBS or (one.large and not mask >> at & 1) else value
            for at, (one, value) in enumerate(zip(instance.columns, old, strict=True))
        ]
        self._row(instance, lsn, sequence, 3, mask, before, command)
        self._row(instance, lsn, sequence, 4, mask, new, command)
        return True

    def _row(
        self, instance: Instance, lsn: bytes, sequence: bytes, operation: int, mask: int, values: Row, command: int
    ) -> None:
        size = max(1, (len(instance.columns) + 7) // 8)
        head = [_hex(lsn), None, _hex(sequence), str(operation), _hex(mask.to_bytes(size, "big"))]
        self._rows.setdefault(instance.table, []).append([*head, *values, str(command)])

    def flush(self) -> None:
        """Into the change tables."""
        for table, rows in self._rows.items():
            ordered = reversed(rows) if "unordered" in self.habits else rows
            with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for row in ordered:
                    copy.write_row(row)
        self._rows.clear()

    def _definition(self, told: Mapping[str, Any], one: Transaction, lsn: bytes, ddl_lsn: bytes) -> bool:
        """DDL of a captured table: a dropped column is NULL from here on, a retyped one is retyped there, too."""
        found = [instance for instance in self._instances.get(told["oid"], ()) if instance.start_lsn < lsn]
        self.flush()
        for instance in found:
            for column in instance.columns:
                if column.name in told.get("drop", ()) and not column.gone:
                    column.gone = True
                    self._connection.execute(
                        "UPDATE ss.captured_columns SET gone = true WHERE instance = %s AND name = %s",
                        (instance.name, column.name),
                    )
            required = 0
            for name, kind in told.get("retype", {}).items():
                if any(column.name == name and not column.gone for column in instance.columns):
                    required = 1
                    self._retype(instance, name, kind)
            self._connection.execute(
                "INSERT INTO cdc.ddl_history VALUES (%s, %s, %s::int4::ss.bit, %s, %b::bytea, %s::int8::ss.datetime)",
                (told["oid"], instance.change_table, required, told["command"], ddl_lsn, moment(one.committed)),
            )
        if found:
            self._instances = instances(self._connection)
        return bool(found)

    def _retype(self, instance: Instance, name: str, kind: str) -> None:
        column = '"' + name.replace('"', '""') + '"'
        made = functions(
            instance.name, [one.name for one in instance.columns], sorted(instance.key) if instance.net else ()
        )
        for statement in made[:3]:  # they go first
            self._connection.execute(statement)
        self._connection.execute(
            f"ALTER TABLE {instance.table} ALTER COLUMN {column} TYPE {kind} USING"
            f" {column}::{kind.partition(' COLLATE')[0]}"
        )
        for statement in made[3:]:
            self._connection.execute(statement)


def _commands(changes: list[Change]) -> list[int]:
    """Which statement of its transaction each change is of, from 1."""
    found, number = [], 0
    for change in changes:
        number += change.operation == "M" and change.prefix == "statement"
        found.append(max(1, number))
    return found


def _captured(instance: Instance, places: Mapping[str, int], row: Row | None) -> Row:
    """The instance's columns of a row; NULL for what is computed or gone."""
    if row is None:
        return []
    return [None if one.gone or one.name not in places else row[places[one.name]] for one in instance.columns]


def _without(instance: Instance, row: Row) -> Row:
    """text, ntext and image are NULL in a deleted row."""
    return [None if one.kind in _OLD_LOBS else value for one, value in zip(instance.columns, row, strict=True)]


def _hex(value: bytes) -> str:
    return "\\x" + value.hex()


def instances(connection: psycopg.Connection[Any]) -> dict[int, list[Instance]]:
    """By source table."""
    found: dict[str, Instance] = {}
    for name, table, change_table, source, start, net in connection.execute(
        "SELECT c.instance, format('%I.%I', n.nspname, t.relname), c.change_table::int8, c.source::int8, c.start_lsn,"
        " c.net"
        " FROM ss.captures c JOIN pg_class t ON t.oid = c.change_table"
        " JOIN pg_namespace n ON n.oid = t.relnamespace"
    ).fetchall():  # fmt: skip
        found[name] = Instance(name, table, change_table, source, bytes(start), net)
    for instance, name, kind, modifier, gone in connection.execute(
        "SELECT c.instance, c.name, k.name, a.atttypmod, c.gone FROM ss.captured_columns c JOIN ss.captures s USING"
        " (instance) JOIN pg_attribute a ON a.attrelid = s.change_table AND a.attname = c.name"
        " JOIN ss.kinds k ON k.type = a.atttypid ORDER BY c.instance, c.ordinal"
    ).fetchall():  # fmt: skip
        large = kind in ("varchar", "nvarchar", "varbinary") and modifier < 0
        found[instance].columns.append(Captured(name, kind, large, gone))
    for source, name in connection.execute(
        "SELECT i.indrelid::int8, a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND"
        " a.attnum = ANY (i.indkey) WHERE i.indisprimary AND i.indrelid IN (SELECT source FROM ss.captures)"
    ).fetchall():  # fmt: skip
        for one in found.values():
            if one.source == source:
                one.key |= {name}
    made: dict[int, list[Instance]] = {}
    for one in found.values():
        made.setdefault(one.source, []).append(one)
    return made
