"""What goes into the journal's rows comes out of them as it was; files as code are applied or refused with a clear
error.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from replicator.errors import TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import Column, TableSchema
from replicator.model.types import INT, STRING, decimal
from replicator.sources.base import KeyRange
from replicator.state.journal import (
    Checkpoint,
    EventKind,
    JournalEntry,
    ReloadRequest,
    SchemaVersion,
    Segment,
    SegmentKind,
    TableEvent,
)
from tests.property.budget import examples, seed

pytestmark = pytest.mark.django_db
ODD = ("plain", "t.dot", "a`b", "ünï😀", "x y", "\u2028", "quote'\"\\", "%s{}", "back\\n", "tab\t")
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def _replicator(table: TableId) -> Any:
    from webapp.connections import services as connections
    from webapp.replicators import services
    from webapp.replicators.selection.entries import SelectionEntry

    connection = connections.create_connection(
        name="c", kind="mysql", config={"host": "db.example", "port": 3307, "user": "u", "password": "pä's\"s"}
    )
    return services.create_replicator(
        name="r", connection=connection, selection=[SelectionEntry(table.database, table.name)], start=True
    )


def _schema(table: TableId, rng: random.Random) -> TableSchema:
    names = rng.sample(ODD, rng.randint(1, 5))
    columns = tuple(
        Column(name, rng.choice((INT, STRING, decimal(38, 10))), rng.random() < 0.5, f"type of {name}")
        for name in names
    )
    return TableSchema(table, columns, tuple(names[: rng.randint(0, 1)]))


@pytest.mark.parametrize("name", ODD)
def test_a_journal_entry_is_read_back_as_it_was_written(name: str) -> None:
    from webapp.replicators.models import Replicator
    from webapp.worker.lease.lease_store import OrmLeaseStore
    from webapp.worker.store.apply_store import OrmApplyStore
    from webapp.worker.store.journal import OrmJournal

    rng, table = random.Random(name), TableId("db " + name, name)
    replicator = _replicator(table)
    journal, lease = OrmJournal(replicator.pk), OrmLeaseStore().acquire(f"capture:{replicator.pk}", "test")
    assert lease is not None
    offset = {"kind": "mysql", "file": "b.000001", "position": 2**53, "gtid": "0-1-7"}
    schema = _schema(table, rng)
    detail = {
        "renamed_columns": {"a": name},
        "statement": f"ALTER TABLE `{name}` … '\"",
        "decision": "applied",
        "reload": False,
    }
    segment = Segment(table, SegmentKind.LOG, 1, 5, 9, f"r/{name}.parquet", 5, 100, 3, 1, 1, 0, MOMENT, MOMENT)
    events = (
        TableEvent(table, 10, EventKind.ALTER_TABLE, 1, MOMENT, detail),
        TableEvent(table, 11, EventKind.SWEEP, detail={"below": 2**62}),
    )
    journal.commit(lease, JournalEntry(Checkpoint({**offset, "position": 4}, 0, "server"), tracking=frozenset({table})))
    checkpoint = Checkpoint(offset, 12, "server é")
    entry = JournalEntry(checkpoint, (segment,), events, (SchemaVersion(1, schema),), source_ts=MOMENT)
    journal.commit(lease, entry)
    plan = journal.plan()
    assert plan.checkpoint == checkpoint
    (tracked,) = plan.tracked
    assert (tracked.table, tracked.schema) == (table, SchemaVersion(1, schema))
    Replicator.objects.get(pk=replicator.pk).tables.update(state="streaming")
    store = OrmApplyStore(replicator.pk)
    (applied,) = store.tables()
    kept, *told = store.items(applied.table, -1)
    assert isinstance(kept, Segment)
    assert kept.journaled_at is not None  # which the journal itself says
    assert [replace(kept, journaled_at=None), *told] == [segment, *events]
    assert store.schema(table, 1) == schema
    journal.commit(
        lease, JournalEntry(checkpoint, reloads=(ReloadRequest(table, 11, fresh=True, reason=f"because of {name}"),))
    )
    (tracked,) = journal.plan().tracked
    assert tracked.run is not None


def test_key_ranges_of_every_type_survive_their_rows() -> None:
    from replicator.state.chunks import PlannedChunk
    from webapp.replicators.models import ChunkRow
    from webapp.worker.lease.lease_store import OrmLeaseStore
    from webapp.worker.store.chunk_store import OrmChunkStore
    from webapp.worker.store.journal import OrmJournal, bounds_of

    table = TableId("d", "t")
    replicator = _replicator(table)
    lease = OrmLeaseStore().acquire(f"capture:{replicator.pk}", "test")
    assert lease is not None
    checkpoint = Checkpoint({"kind": "mysql", "file": "b.1", "position": 4, "gtid": ""}, 0, "s")
    OrmJournal(replicator.pk).commit(lease, JournalEntry(checkpoint, tracking=frozenset({table})))
    store = OrmChunkStore(replicator.pk)
    (run,) = store.to_plan()
    keys = (
        ("-9223372036854775808", "18446744073709551615"), ("1.5e0", "-0e0"),
        ("_utf8mb4 X'C3A9' COLLATE utf8mb4_bin", "X''"),
        ("CAST('0000-00-00' AS DATE)", "CAST('-838:59:59.000000' AS TIME(6))"),
        ("0.00000000000000000000000000000001", "'"),
    )  # fmt: skip
    ranges = [KeyRange(low, high) for low, high in zip((None, *keys), (*keys, None), strict=True)]
    for bounds in ranges:
        store.planned([PlannedChunk(run.run, keys[-1], bounds, done=False)])
    rows = ChunkRow.objects.select_related("run").order_by("number")
    assert [bounds_of(row.lower, row.upper, row.keys, row.run.condition) for row in rows] == ranges
    assert store.to_plan()[0].end == keys[-1]


def test_a_connections_settings_survive_and_its_secrets_are_not_in_the_clear() -> None:
    from webapp.connections.models import Connection
    from webapp.connections.selectors import full_config

    _replicator(TableId("d", "t"))
    connection = Connection.objects.get()
    assert full_config(connection)["password"] == "pä's\"s"
    assert str(full_config(connection)["port"]) == "3307"
    assert "password" not in connection.config
    assert "pä" not in connection.secrets


WHOLE: dict[str, Any] = {
    "connections": [{"name": "c", "kind": "mysql", "config": {"host": "h", "port": 3306}}],
    "replicators": [
        {
            "name": "r",
            "connection": "c",
            "tables": [
                "a.*",
                {"table": "a.b", "exclude_columns": ["x"], "slo": {"percent": 99.9, "minutes": 1}, "target": "l.b"},
            ],
            "exclude": ["a.c"],
            "target": {"namespace_prefix": "p"},
            "options": {"slo_minutes": 1, "ddl_policy": {"truncate": "stop"}},
            "streams": [{"name": "s", "shards": 2, "tables": ["a.b"], "exclude": [], "retention_hours": 2.5}],
            "state": "stopped",
        }
    ],
}
ODDITIES = (
    None,
    5,
    -1,
    1.5,
    True,
    "",
    "x",
    "${NOT_SET}",
    [],
    ["x"],
    [5],
    [None],
    {},
    {"a": 1},
    {5: 5},
    [["x"]],
    float("nan"),
    "a.b",
    "." * 300,
    "\0",
)


def _damage(value: Any, rng: random.Random) -> Any:
    """One place of a document made something else, left out, or given another key."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(ODDITIES)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    place = rng.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
    if isinstance(copy, dict) and rng.random() < 0.2:
        copy[rng.choice((5, "zzz", None, True))] = copy.pop(place)
    else:
        copy[place] = _damage(copy[place], rng)
    return copy


def test_a_damaged_file_is_applied_or_refused() -> None:
    from django.db import transaction

    from webapp.console.definitions.apply import apply

    class Undo(Exception):
        """Every file begins with nothing."""

    start, outcomes = seed(), {"applied": 0, "refused": 0}
    for number in range(examples(150, 5000)):
        rng = random.Random(f"{start}/{number}")
        document = _damage(WHOLE, rng)
        text = yaml.safe_dump(document, allow_unicode=True)
        try:
            with transaction.atomic():
                apply(text, {})
                outcomes["applied"] += 1
                raise Undo  # noqa: TRY301 - what the block is left by
        except TidemarkError as error:
            assert error.message  # noqa: PT017 - or it was applied
            outcomes["refused"] += 1
        except Undo:
            pass
        except Exception as error:  # noqa: BLE001 - which it is, is the question
            pytest.fail(f"seed {start}, case {number}: {error!r} for\n{text}")
    assert min(outcomes.values()) > 10, outcomes


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "connections: &a [*a]",
        "[" * 5000,
        "a: " * 50,
        "\0",
        "- 1",
        "!!python/object:os.system {}",
        "connections: [&a {name: x, config: *a}]",
    ],
)
def test_a_file_that_is_none_is_refused(text: str) -> None:
    from webapp.console.definitions.apply import apply

    with pytest.raises(TidemarkError):
        apply(text, {})
