"""What every target keeps: position and rows commit together, a stale worker is refused, each change has its effect.

A kind's own tests cover more of it; these are the same for all kinds, including one that a plugin adds.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from replicator import faults
from replicator.errors import ConfigurationError, TargetConflict, TargetError
from replicator.faults import Fault, FaultInjected
from replicator.model.identifiers import TableId
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    decimal,
    widens,
)  # fmt: skip
from replicator.state.journal import Segment
from replicator.targets.base import (
    NO_TABLE,
    Append,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Position,
    Rename,
    Replace,
    Target,
    TargetTable,
)  # fmt: skip
from replicator.targets.kind import FULL, NONE, PARTIAL
from tests.contract.targets.model import Model
from tests.contract.targets.places import TargetPlace
from tests.staged import Change, delete, insert, read, schema_of, segment, update

pytestmark = [pytest.mark.integration, pytest.mark.spark]
KEYED = schema_of({"id": "int", "v": "string"}, ["id"], TableId("shop", "keyed"))
KEYLESS = schema_of({"a": "string", "n": "int"}, (), TableId("shop", "keyless"))
NUMBERS = itertools.count(1)
PLAIN = tuple(
    one.replace(tzinfo=None)
    for one in (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2199, 12, 31, 23, 59, 59, 999999, dt.UTC))
)
# What a worker can have done when it dies: nothing visible, or everything.
POINTS = ("apply.read.after", "apply.stage.before", "apply.publish.before", "apply.publish.after")
ALL_TYPES = (
    BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, decimal(10, 2), decimal(38, 0),
    decimal(38, 38), decimal(1, 0),
)  # fmt: skip


@pytest.fixture(autouse=True)
def unharmed() -> Iterator[None]:
    yield
    faults.disarm()


def modes(place: TargetPlace) -> list[Mode]:
    """Return the modes of the kind; a kind without modes ignores the mode and keeps every change."""
    return sorted(place.kind.capabilities.modes) or [Mode.MIRROR]


def made(
    place: TargetPlace,
    target: Target,
    schema: TableSchema,
    mode: Mode = Mode.MIRROR,
    applied: int = -1,
    load: str = "L1",
) -> TargetTable:
    """A new empty table."""
    table = TargetTable(place.namespace, f"t{next(NUMBERS)}")
    assert target.position(table) is None
    target.apply(table, Create(schema, 1, applied, load, mode), NO_TABLE)
    return table


def merged(place: TargetPlace, target: Target, table: TargetTable, schema: TableSchema, *changes: Change) -> None:
    staged = segment(place.storage, schema, changes)
    target.apply(table, Merge([staged], schema, staged.last_sequence), "L1")


def settled(position: Position | None) -> tuple[int, int, int, str]:
    assert position is not None
    return position.applied, position.loaded, position.schema_version, position.load


def beginning(place: TargetPlace, applied: int, load: str = "L1") -> tuple[int, int, int, str]:
    """Of a table without rows; what keeps every change is never behind with a load's."""
    return applied, applied if place.kind.capabilities.unfolded else -1, 1, load


def test_a_table_begins_where_it_is_told_and_says_so(place: TargetPlace) -> None:
    for mode in modes(place):
        target = place.target()
        table = made(place, target, KEYED, mode, applied=7)
        assert settled(target.position(table)) == beginning(place, 7)
        assert settled(place.target().position(table)) == beginning(place, 7)
        if mode is not Mode.CHANGELOG:
            assert place.read(table, KEYED, mode) == Counter()


def test_a_table_that_is_being_loaded_has_no_load_yet(place: TargetPlace) -> None:
    """A table without a key: in it snapshot rows and concurrent changes cannot be distinguished."""
    table = made(place, place.target(), KEYLESS, load="")
    target = place.target()
    assert settled(target.position(table)) == beginning(place, -1, "")
    staged = segment(place.storage, KEYLESS, [insert(0, "a", 1)])
    target.apply(table, Merge([staged], KEYLESS, 0), "")
    assert settled(target.position(table))[::3] == (0, "")
    target.apply(table, Create(KEYLESS, 1, 5, "L2"), "")
    assert settled(target.position(table)) == beginning(place, 5, "L2")
    with pytest.raises(TargetConflict):
        target.apply(table, Create(KEYLESS, 1, 5, "L3"), "")
    target.apply(table, Drop())
    assert target.position(table) is None


def test_rows_and_position_are_one(place: TargetPlace) -> None:
    for mode in modes(place):
        target = place.target()
        table = made(place, target, KEYED, mode)
        chunk = segment(place.storage, KEYED, [read(0, 1, "a"), read(1, 2, "b"), read(2, 3, "c")])
        target.apply(table, Append([chunk], KEYED, 2), "L1")
        merged(
            place,
            target,
            table,
            KEYED,
            update(3, (1, "a"), (1, "A")),
            delete(4, 2, "b"),
            insert(5, 4, "d"),
            update(6, (3, "c"), (9, "c")),
        )
        applied, _, version, load = settled(target.position(table))
        assert (applied, version, load) == (6, 1, "L1")
        if mode is not Mode.CHANGELOG:
            assert place.read(table, KEYED, mode) == Counter([(1, "A"), (4, "d"), (9, "c")])


def test_what_was_applied_is_skipped(place: TargetPlace) -> None:
    for mode in modes(place):
        target = place.target()
        table = made(place, target, KEYED, mode)
        chunk, log = (
            segment(place.storage, KEYED, changes)
            for changes in ([read(0, 1, "a"), read(1, 2, "b")], [insert(2, 3, "c"), delete(3, 1, "a")])
        )
        again = [Append([chunk], KEYED, 1), Merge([log], KEYED, 3), DeleteBelow(2, 4)]
        for change in again:
            target.apply(table, change, "L1")
        rows, at = place.read(table, KEYED, mode), settled(target.position(table))
        for worker, change in itertools.product((target, place.target()), again):
            worker.position(table)
            worker.apply(table, change, "L1")
        assert (place.read(table, KEYED, mode), settled(place.target().position(table))) == (rows, at)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4, 5))])
@pytest.mark.parametrize("schema", [KEYED, KEYLESS], ids=["keyed", "keyless"])
def test_random_changes_give_the_sources_rows(place: TargetPlace, schema: TableSchema, seed: int) -> None:
    rng, target, model = random.Random(seed), place.target(), Model(schema)
    table = made(place, target, schema)
    seq = itertools.count()
    for _ in range(4):
        changes = []
        for _ in range(rng.randrange(1, 40)):
            changes.append(random_change(rng, next(seq), schema, model))
            model.follow(changes[-1:])
        target.apply(table, Merge([segment(place.storage, schema, changes)], schema, changes[-1].seq), "L1")
    assert place.read(table, schema, Mode.MIRROR) == model.rows


def random_change(rng: random.Random, seq: int, schema: TableSchema, model: Model) -> Change:
    def row() -> tuple[int | str | None, ...]:
        text = rng.choice(("x", "", "ä\N{SNOWMAN}", None))
        return (rng.randrange(1000), text) if schema.key else (text, rng.randrange(3))

    there = sorted(model.rows, key=repr)
    fresh = row()
    while schema.key and any(one[0] == fresh[0] for one in there):
        fresh = row()
    match rng.choice(("insert", "insert", "update", "update", "move", "delete")) if there else "insert":
        case "insert":
            return insert(seq, *fresh)
        case "delete":
            return delete(seq, *rng.choice(there))
        case "move":
            return update(seq, rng.choice(there), fresh)
        case _:
            old = rng.choice(there)
            return update(seq, old, (old[0], row()[1]))


def test_a_table_without_key_is_replaced_as_a_whole(place: TargetPlace) -> None:
    target = place.target()
    table = made(place, target, KEYLESS)
    for first, load, rows in ((0, "L2", [("x", 1), ("x", 1)]), (10, "L3", [("y", 2)])):
        chunk = segment(place.storage, KEYLESS, [read(first + n, *row) for n, row in enumerate(rows)])
        change = Replace([chunk], KEYLESS, 1, chunk.last_sequence, chunk.last_sequence, load)
        target.apply(table, change)
        target.apply(table, change)
        assert place.read(table, KEYLESS, Mode.MIRROR) == Counter(rows)
        assert settled(target.position(table))[3] == load


def test_a_stale_worker_is_refused(place: TargetPlace) -> None:
    older = place.target()
    table = made(place, older, KEYED)
    older.position(table)
    newer = place.target()
    newer.position(table)
    newer.apply(table, Create(KEYED, 1, 50, "L2"), "L1")
    for change in (
        Merge([segment(place.storage, KEYED, [insert(60, 1, "stale")])], KEYED, 60),
        DeleteBelow(70, 70),
        Drop(),
        Create(KEYED, 1, 9, "L9"),
    ):
        with pytest.raises(TargetConflict):
            older.apply(table, change, "L1")
    fresh = place.target()
    assert settled(fresh.position(table)) == beginning(place, 50, "L2")
    assert place.read(table, KEYED, Mode.MIRROR) == Counter()


def test_a_table_of_somebody_else_is_left_alone(place: TargetPlace) -> None:
    owner = place.target("owner")
    table = made(place, owner, KEYED)
    merged(place, owner, table, KEYED, insert(0, 1, "mine"))
    stranger = place.target("stranger")
    for attempt in (
        lambda: stranger.position(table),
        lambda: stranger.apply(table, Create(KEYED, 1, -1, "L9")),
        lambda: stranger.apply(table, Drop()),
    ):
        try:
            attempt()
        except (TargetConflict, ConfigurationError):
            continue
        assert settled(owner.position(table)) == beginning(place, 0)
    assert place.read(table, KEYED, Mode.MIRROR) == Counter([(1, "mine")])


ENDS = [
    *((change, point, "fail") for change in ("append", "merge", "delete below") for point in POINTS),
    *(("replace", point, "fail") for point in POINTS[2:]),  # nothing is begun before
    ("merge", "apply.stage.before", "full"),
]


@pytest.mark.parametrize(("change", "point", "action"), ENDS)
def test_a_worker_that_ends_between_two_steps_leaves_all_or_nothing(
    place: TargetPlace, change: str, point: str, action: faults.Action
) -> None:
    """A commit that is done and reported failed is not done again."""
    schema, target = KEYLESS if change == "replace" else KEYED, place.target()
    table = made(place, target, schema)

    def staged(*changes: Change) -> list[Segment]:
        return [segment(place.storage, schema, changes)]

    wanted: Append | Merge | DeleteBelow | Replace
    if change == "replace":
        target.apply(table, Replace(staged(read(0, "x", 1)), schema, 1, 1, 0, "L1"))
        wanted = Replace(staged(read(5, "y", 2), read(6, "y", 2)), schema, 1, 6, 6, "L2")
        after = Counter([("y", 2), ("y", 2)])
    else:
        target.apply(table, Append(staged(read(0, 1, "a"), read(1, 2, "b")), schema, 1), "L1")
    match change:
        case "append":
            wanted, after = Append(staged(read(2, 3, "c")), schema, 2), Counter([(1, "a"), (2, "b"), (3, "c")])
        case "merge":
            wanted = Merge(staged(update(2, (1, "a"), (1, "A")), delete(3, 2, "b")), schema, 3)
            after = Counter([(1, "A")])
        case "delete below":
            wanted, after = DeleteBelow(1, 5), Counter([(2, "b")])
    before, at = place.read(table, schema, Mode.MIRROR), target.position(table)
    faults.arm([Fault(point, action)])
    with contextlib.suppress(FaultInjected, OSError):  # what has no such step is done
        target.apply(table, wanted)
        point = "apply.publish.after"
    faults.disarm()
    fresh = place.target()
    done = point == "apply.publish.after"
    assert (fresh.position(table) != at) == done
    assert place.read(table, schema, Mode.MIRROR) == (after if done else before)
    fresh.apply(table, wanted)
    assert place.read(table, schema, Mode.MIRROR) == after


def keyed(columns: dict[str, str]) -> TableSchema:
    """The table `KEYED` with other columns."""
    return schema_of(columns, KEYED.key, KEYED.table)


def test_columns_come_go_and_widen(place: TargetPlace) -> None:
    target = place.target()
    table = made(place, target, KEYED)
    merged(place, target, table, KEYED, insert(0, 1, "a"))
    steps: Sequence[tuple[TableSchema, dict[str, str]]] = (
        (keyed({"id": "int", "v": "string", "n": "int", "f": "float", "d": "decimal(5,2)"}), {}),
        (keyed({"id": "bigint", "v": "string", "n": "bigint", "f": "double", "d": "decimal(9,2)"}), {}),
        (keyed({"id": "bigint", "n": "string", "v": "bigint", "f": "double", "d": "decimal(9,2)"}),
            {"v": "n", "n": "v"}),
        (keyed({"id": "bigint", "n": "string"}), {}),
    )  # fmt: skip
    values = [
        (2, "b", 5, 1.5, Decimal("1.25")),
        (3, "c", 2**40, 2.5, Decimal("12345.25")),
        (4, "d", 7, 3.5, Decimal("2.00")),
        (5, "e"),
    ]
    for version, ((schema, renamed), row) in enumerate(zip(steps, values, strict=True), 2):
        change = Evolve(schema, version, renamed)
        target.apply(table, change, "L1")
        target.apply(table, change, "L1")
        assert settled(target.position(table))[2] == version
        staged = segment(place.storage, schema, [insert(version, *row)], version)
        target.apply(table, Merge([staged], schema, version), "L1")
    assert place.read(table, steps[-1][0], Mode.MIRROR) == Counter([(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")])


def test_truncate_drop_and_rename(place: TargetPlace) -> None:
    target = place.target()
    table = made(place, target, KEYED)
    merged(place, target, table, KEYED, insert(0, 1, "a"), insert(1, 2, "b"))
    target.apply(table, DeleteBelow(2, 2), "L1")
    assert place.read(table, KEYED, Mode.MIRROR) == Counter()
    merged(place, target, table, KEYED, insert(3, 3, "c"))
    if "rename_table" in place.kind.capabilities.ddl:
        new = TargetTable(table.namespace, f"{table.name}_new")
        for _ in range(2):
            target.apply(table, Rename(new), None)
        assert target.position(table) is None
        table = new
        assert settled(target.position(table))[0] == 3
    else:
        with pytest.raises(TargetError):
            target.apply(table, Rename(TargetTable(table.namespace, "other")), "L1")
    for _ in range(2):
        target.apply(table, Drop())
    assert target.position(table) is None


def test_every_type_keeps_its_values(place: TargetPlace) -> None:
    values = {
        BOOLEAN: (True, False), INT: (-(2**31), 2**31 - 1), BIGINT: (-(2**63), 2**63 - 1), FLOAT: (1.5, -0.0),
        DOUBLE: (1e308, 5e-324), STRING: ("", "ä\N{SNOWMAN}\n'\"\\ \N{GRINNING FACE}"),
        BINARY: (b"", bytes(range(256))),
        DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
        TIMESTAMP: (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2199, 12, 31, 23, 59, 59, 999999, dt.UTC)),
        TIMESTAMP_NTZ: (PLAIN),
        decimal(10, 2): (Decimal("-99999999.99"), Decimal("0.00")), decimal(38, 0): (Decimal(10**38 - 1), Decimal(-1)),
        decimal(38, 38): (Decimal("0." + "9" * 38), Decimal(0)), decimal(1, 0): (Decimal(9), Decimal(-9)),
    }  # fmt: skip
    assert values.keys() == set(ALL_TYPES)
    kept = [kind for kind in ALL_TYPES if place.kind.types(kind).support != NONE]
    columns = {"id": "int"} | {named(kind): str(kind) for kind in kept}
    schema = schema_of(columns, ["id"], TableId("shop", "types"))
    rows = [
        (1, *(values[kind][0] for kind in kept)),
        (2, *(values[kind][1] for kind in kept)),
        (3, *(None for _ in kept)),
    ]
    target = place.target()
    table = made(place, target, schema)
    target.apply(table, Append([segment(place.storage, schema, [read(0, *rows[0])])], schema, 0), "L1")
    merged(place, target, table, schema, insert(1, *rows[1]), insert(2, *rows[2]))
    found = place.read(table, schema, Mode.MIRROR)
    assert Counter(map(told, found.elements())) == Counter(map(told, rows))


def named(kind: DataType) -> str:
    """A column for each type: `c_date`, `c_decimal_10_2`."""
    return f"c_{re.sub(r'[^a-z0-9]+', '_', str(kind)).rstrip('_')}"


def told(row: tuple[object, ...]) -> tuple[object, ...]:
    """Instants without their zone, which readers show as they like; the sign of a zero."""
    return tuple(
        value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) and value.tzinfo
        else repr(value) if isinstance(value, float)
        else value
        for value in row
    )  # fmt: skip


def test_a_kind_says_what_it_can(place: TargetPlace) -> None:
    kind, can = place.kind, place.kind.capabilities
    pace = can.commit_seconds  # which some destinations have as a setting
    assert replace(place.target().capabilities, commit_seconds=pace) == can
    assert can.exactly_once
    for one in ALL_TYPES:
        said = kind.types(one)
        assert said.name
        assert said.support in {FULL, PARTIAL, NONE}
        assert said.support == FULL or said.note
    named = {field.name for field in kind.settings}
    assert len(named) == len(kind.settings)
    assert {*kind.fixed, *kind.effects} <= named
    assert kind.guide
    legal = kind.identifiers.legal
    names = ["orders", "Orders", "ORDERS", "a.b", "a b", "x" * 255, "x" * 300, "x" * 299 + "y", "ä", "select", "_"]
    assert len({kind.identifiers.fold(legal(name)) for name in names}) == len(names)
    for name in names:
        assert legal(legal(name)) == legal(name)
        assert not kind.identifiers.refusal(legal(name)), name


def test_what_widens_is_what_the_engine_relies_on() -> None:
    """`test_columns_come_go_and_widen` tries each pair in every target."""
    tried = {(INT, BIGINT), (FLOAT, DOUBLE), (decimal(5, 2), decimal(9, 2))}
    found = {(a, b) for a in ALL_TYPES for b in ALL_TYPES if widens(a, b)}
    assert {(a.kind, b.kind) for a, b in found} <= {(a.kind, b.kind) for a, b in tried}
    assert all(widens(a, b) for a, b in tried)
