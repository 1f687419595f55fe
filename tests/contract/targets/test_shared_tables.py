"""Tables that several source tables share: each part behaves as a separate table, regardless of the others."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from replicator import faults
from replicator.errors import TargetConflict, TargetError, UnsupportedDdl
from replicator.faults import Fault, FaultInjected
from replicator.model.mode import Mode
from replicator.model.schema import TableSchema
from replicator.targets.base import (
    NO_TABLE,
    Append,
    Create,
    DeleteBelow,
    Drop,
    Evolve,
    Merge,
    Rename,
    Target,
    TargetTable,
)
from tests.contract.targets.model import Model
from tests.contract.targets.places import TargetPlace
from tests.contract.targets.test_target import NUMBERS, POINTS, random_change
from tests.staged import Change, Row, delete, insert, read, schema_of, segment, update

pytestmark = [pytest.mark.integration, pytest.mark.spark]
TENANT = "tenant"
LOADS = itertools.count(1)


@pytest.fixture(autouse=True)
def unharmed() -> Iterator[None]:
    yield
    faults.disarm()


def schema(columns: Mapping[str, str] | None = None, **more: str) -> TableSchema:
    return schema_of({**(columns or {"id": "int", "v": "string"}), **more, TENANT: "string"}, ["id"])


KEYED = schema()


class Part:
    """One source table, and what its rows in the target must be."""

    def __init__(self, place: TargetPlace, name: str, tenant: str, mode: Mode = Mode.MIRROR) -> None:
        self.place, self.tenant, self.mode = place, tenant, mode
        self.table = TargetTable(place.namespace, name, f"{TENANT}={tenant}")
        self.load, self.version = "", 1

    def create(self, target: Target, shape: TableSchema = KEYED, applied: int = -1) -> None:
        at = target.position(self.table)
        self.load = f"L{next(LOADS)}"
        change = Create(shape, self.version, applied, self.load, self.mode)
        target.apply(self.table, change, NO_TABLE if at is None else at.load)

    def merge(self, target: Target, *changes: Change, shape: TableSchema = KEYED) -> None:
        wide = [self.whole(change) for change in changes]
        staged = segment(self.place.storage, shape, wide, self.version)
        target.apply(self.table, Merge([staged], shape, staged.last_sequence), self.load)

    def append(self, target: Target, *changes: Change, shape: TableSchema = KEYED) -> None:
        staged = segment(self.place.storage, shape, [self.whole(one) for one in changes], self.version)
        target.apply(self.table, Append([staged], shape, staged.last_sequence), self.load)

    def evolve(
        self, target: Target, shape: TableSchema, renamed: Mapping[str, str] | None = None, *, keep: bool = False
    ) -> None:
        self.version += 1
        for _ in range(2):
            target.apply(self.table, Evolve(shape, self.version, renamed or {}, keep), self.load)

    def whole(self, change: Change) -> Change:
        before = None if change.before is None else (*change.before, self.tenant)
        row = None if change.row is None else (*change.row, self.tenant)
        return Change(change.seq, change.op, before, row, change.at)

    def rows(self, shape: TableSchema = KEYED) -> Counter[Row]:
        """Without the tenant."""
        found = self.place.read(self.table, shape, self.mode)
        return Counter({row[:-1]: count for row, count in found.items() if row[-1] == self.tenant})

    def applied(self, target: Target) -> int | None:
        at = target.position(self.table)
        return None if at is None else at.applied


@pytest.fixture
def parts(place: TargetPlace) -> Callable[..., list[Part]]:
    """Return a function that makes `count` parts of a new table."""
    if not place.kind.capabilities.shared_modes:
        pytest.skip("no shared tables")

    def made(count: int = 2, mode: Mode = Mode.MIRROR) -> list[Part]:
        name = f"t{next(NUMBERS)}"
        return [Part(place, name, f"shop {'ab' * (n + 1)}'{n}", mode) for n in range(count)]

    return made


def test_parts_are_apart(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    for mode in sorted(place.kind.capabilities.shared_modes):
        one, two = parts(mode=mode)
        one.create(target, applied=3)
        assert (one.applied(target), two.applied(target)) == (3, None)
        two.create(target, applied=9)
        one.append(target, read(10, 1, "a"), read(11, 2, "b"))
        two.append(target, read(12, 1, "A"), read(13, 2, "B"))
        one.merge(target, update(14, (1, "a"), (1, "c")), delete(15, 2, "b"), insert(16, 3, "d"))
        two.merge(target, update(17, (1, "A"), (7, "A")))
        assert (one.applied(target), two.applied(place.target())) == (16, 17)
        assert (one.rows(), two.rows()) == (Counter([(1, "c"), (3, "d")]), Counter([(7, "A"), (2, "B")]))
        one.merge(target, update(14, (1, "a"), (1, "c")), delete(15, 2, "b"), insert(16, 3, "d"))
        target.apply(one.table, DeleteBelow(17, 20), one.load)
        assert (one.rows(), two.rows()) == (Counter(), Counter([(7, "A"), (2, "B")]))
        one.merge(target, insert(21, 1, "z"))
        one.create(target, applied=30)
        assert (one.rows(), two.rows()) == (Counter(), Counter([(7, "A"), (2, "B")]))
        assert (one.applied(target), two.applied(target)) == (30, 17)


def test_the_table_goes_with_its_last_part(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, two = parts()
    one.create(target)
    two.create(target)
    one.merge(target, insert(0, 1, "a"))
    two.merge(target, insert(1, 1, "b"))
    for _ in range(2):
        target.apply(one.table, Drop())
    assert (one.applied(target), two.applied(target)) == (None, 1)
    assert place.read(one.table, KEYED, Mode.MIRROR) == Counter([(1, "b", two.tenant)])
    target.apply(two.table, Drop(), two.load)
    assert two.applied(target) is None
    two.create(target)
    one.create(target)
    two.merge(target, insert(2, 5, "c"))
    assert (one.rows(), two.rows()) == (Counter(), Counter([(5, "c")]))
    target.apply(one.table, Drop(whole=True))
    assert two.applied(place.target()) is None


def test_a_shared_table_is_no_other(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, _ = parts()
    one.create(target)
    other = TargetTable(one.table.namespace, one.table.name, f"region={one.tenant}")
    for table in (one.table.whole, other):
        with pytest.raises(TargetConflict, match="is shared by the column tenant"):
            target.position(table)
        with pytest.raises(TargetConflict):
            target.apply(table, Create(KEYED, 1, -1, "L0"))
    plain, part = TargetTable(place.namespace, f"t{next(NUMBERS)}"), None
    target.apply(plain, Create(KEYED, 1, -1, "L0"))
    part = TargetTable(plain.namespace, plain.name, one.table.part)
    with pytest.raises(TargetConflict, match="is not shared"):
        target.position(part)
    with pytest.raises(TargetError, match="cannot be renamed"):
        target.apply(one.table, Rename(TargetTable(place.namespace, "elsewhere", one.table.part)), one.load)
    target.apply(one.table, Rename(one.table), one.load)


def test_parts_of_two_modes_are_refused(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, two = parts()
    one.create(target)
    two.mode = Mode.SOFT_DELETE
    with pytest.raises(UnsupportedDdl, match="in the mode mirror"):
        two.create(target)


def test_a_stale_worker_of_a_part_is_refused(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    older, newer = place.target(), place.target()
    one, two = parts()
    one.create(older)
    two.create(older)
    older.position(one.table)
    stale = one.load
    one.create(newer, applied=50)
    for change in (
        Merge([segment(place.storage, KEYED, [insert(60, 1, "stale", one.tenant)])], KEYED, 60),
        DeleteBelow(70, 70),
        Drop(),
        Create(KEYED, 1, 9, "L0"),
        Evolve(schema(n="int"), 2),
    ):
        with pytest.raises(TargetConflict):
            older.apply(one.table, change, stale)
    assert (one.applied(place.target()), one.rows()) == (50, Counter())
    two.merge(older, insert(61, 1, "b"))
    assert two.rows() == Counter([(1, "b")])


def test_columns_unite(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    """Columns are added, widened, dropped and renamed in one part, regardless of the other's columns."""
    target = place.target()
    one, two = parts()
    one.create(target)
    two.create(target, wide := schema(n="int", f="float"))
    one.merge(target, insert(0, 1, "a"))
    two.merge(target, insert(1, 1, "b", 5, 1.5), shape=wide)
    assert one.rows(wide) == Counter([(1, "a", None, None)])
    one.evolve(target, more := schema({"id": "bigint", "v": "string"}, n="bigint", own="string"))
    one.merge(target, insert(2, 2**40, "c", 2**41, "x"), update(3, (1, "a", None, None), (1, "a", 4, "y")), shape=more)
    two.merge(target, insert(4, 2, "d", 6, 2.5), update(5, (1, "b", 5, 1.5), (1, "b", 7, 1.5)), shape=wide)
    assert one.rows(more) == Counter([(2**40, "c", 2**41, "x"), (1, "a", 4, "y")])
    assert two.rows(wide) == Counter([(2, "d", 6, 2.5), (1, "b", 7, 1.5)])
    one.evolve(target, fewer := schema({"id": "bigint", "v": "string"}))
    assert one.rows(schema({"id": "bigint", "v": "string"}, n="bigint")) == Counter(
        [(2**40, "c", None), (1, "a", None)]
    )
    one.merge(target, delete(6, 2**40, "c"), insert(7, 3, "e"), shape=fewer)
    one.evolve(target, moved := schema({"id": "bigint", "w": "string"}), {"v": "w"})
    assert one.rows(moved) == Counter([(1, "a"), (3, "e")])
    assert two.rows(wide) == Counter([(2, "d", 6, 2.5), (1, "b", 7, 1.5)])
    one.evolve(target, both := schema({"id": "bigint", "v": "string", "w": "string"}))
    assert one.rows(both) == Counter([(1, None, "a"), (3, None, "e")])
    one.evolve(target, swapped := schema({"id": "bigint", "v": "string", "w": "string"}), {"v": "w", "w": "v"})
    assert one.rows(swapped) == Counter([(1, "a", None), (3, "e", None)])
    one.merge(target, update(8, (1, "a", None), (1, "a", "z")), shape=swapped)
    assert one.rows(swapped) == Counter([(1, "a", "z"), (3, "e", None)])
    assert two.rows(wide) == Counter([(2, "d", 6, 2.5), (1, "b", 7, 1.5)])


def test_a_column_that_is_a_parts_alone_becomes_another(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, two = parts()
    one.create(target, first := schema(c="int", d="string"))
    two.create(target)
    one.merge(target, insert(0, 1, "a", 5, "d"), shape=first)
    one.evolve(target, second := schema(c="string", e="string"), {"d": "e"})
    one.merge(target, insert(1, 2, "b", "five", "E"), shape=second)
    assert one.rows(second) == Counter([(1, "a", None, "d"), (2, "b", "five", "E")])
    two.evolve(target, third := schema(d="int"))
    two.merge(target, insert(2, 1, "c", 9), shape=third)
    assert two.rows(third) == Counter([(1, "c", 9)])


def test_two_types_of_one_column_stop_one_part_alone(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, two = parts()
    one.create(target)
    two.create(target)
    one.merge(target, insert(0, 1, "a"))
    with pytest.raises(UnsupportedDdl, match=r"The column v of shop\.t is int, and string in"):
        one.evolve(target, schema({"id": "int", "v": "int"}))
    with pytest.raises(UnsupportedDdl, match="no type of the target holds both"):
        one.create(target, schema({"id": "int", "v": "int"}))
    two.merge(target, insert(1, 1, "b"))
    assert two.rows() == Counter([(1, "b")])


def test_dropped_columns_are_kept_where_the_policy_says_so(
    place: TargetPlace, parts: Callable[..., list[Part]]
) -> None:
    target = place.target()
    one, two = parts()
    one.create(target, wide := schema(n="int"))
    two.create(target, wide)
    one.merge(target, insert(0, 1, "a", 5), insert(1, 2, "b", 6), shape=wide)
    two.merge(target, insert(2, 1, "A", 7), shape=wide)
    one.evolve(target, KEYED, keep=True)
    one.merge(target, update(3, (1, "a"), (1, "c")), insert(4, 3, "d"))
    assert one.rows(wide) == Counter([(1, "c", 5), (2, "b", 6), (3, "d", None)])
    one.evolve(target, wide)
    assert one.rows(wide) == Counter([(1, "c", None), (2, "b", None), (3, "d", None)])
    assert two.rows(wide) == Counter([(1, "A", 7)])


@pytest.mark.parametrize("point", [*POINTS, "apply.create.between"])
@pytest.mark.parametrize("what", ["append", "merge", "delete below", "create", "drop", "evolve"])
def test_a_worker_that_dies_between_two_steps_of_a_part(
    place: TargetPlace, parts: Callable[..., list[Part]], point: str, what: str
) -> None:
    target = place.target()
    one, two = parts()
    one.create(target)
    two.create(target)
    one.append(target, read(0, 1, "a"), read(1, 2, "b"))
    two.append(target, read(2, 1, "A"))
    shape = KEYED
    changes = {
        "append": (Append([segment(place.storage, KEYED, [read(3, 3, "c", one.tenant)])], KEYED, 3),
            Counter([(1, "a"), (2, "b"), (3, "c")])),
        "merge": (Merge([segment(place.storage, KEYED, [delete(3, 1, "a", one.tenant)])], KEYED, 3),
            Counter([(2, "b")])),
        "delete below": (DeleteBelow(1, 5), Counter([(2, "b")])),
        "create": (Create(KEYED, 1, 9, "L0"), Counter()),
        "drop": (Drop(), Counter()),
        "evolve": (Evolve(schema(w="string"), 2, {"v": "w"}), Counter([(1, "a"), (2, "b")])),
    }  # fmt: skip
    wanted, after = changes[what]
    faults.arm([Fault(point, "fail")])
    try:
        target.apply(one.table, wanted, one.load)
    except FaultInjected:
        assert two.rows() == Counter([(1, "A")])
    faults.disarm()
    fresh = place.target()
    at = fresh.position(one.table)
    fresh.apply(one.table, wanted, NO_TABLE if at is None else at.load)
    if what == "evolve":
        shape = schema_of({"id": "int", "w": "string", TENANT: "string"}, ["id"])
    assert one.rows(shape) == after
    assert two.rows() == Counter([(1, "A")])
    assert two.applied(fresh) == -1


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_random_changes_of_two_parts_at_a_time(place: TargetPlace, parts: Callable[..., list[Part]], seed: int) -> None:
    """From threads of one worker, and of a second one that does the same and knows nothing of the first."""
    made, plain = parts(3), schema_of({"id": "int", "v": "string"}, ["id"])
    workers = [place.target(), place.target()]
    models = {part.tenant: Model(plain) for part in made}
    together = threading.Barrier(2 * len(made))

    def live(number: int, part: Part, target: Target) -> None:
        rng, model, seq = random.Random(f"{seed} {number}"), Model(plain), itertools.count(1000 * number)
        together.wait()
        for _ in range(4):
            changes: list[Change] = []
            for _ in range(rng.randrange(1, 20)):
                changes.append(random_change(rng, next(seq), plain, model))
                model.follow(changes[-1:])
            part.merge(target, *changes)
        models[part.tenant] = model

    for part in made:
        part.create(workers[0])
    with ThreadPoolExecutor(2 * len(made)) as pool:
        for one in [pool.submit(live, n, part, worker) for n, part in enumerate(made) for worker in workers]:
            one.result()
    for part in made:
        assert part.rows() == models[part.tenant].rows, part.tenant


def test_parts_that_are_made_and_dropped_at_a_time(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    """The first makes the table, the last drops it: by two workers, each for itself."""
    made = parts(4)
    workers = [place.target(), place.target()]
    together = threading.Barrier(len(made))

    def live(number: int, part: Part) -> None:
        target, seq = workers[number % 2], itertools.count(1000 * number)
        together.wait()
        for round_ in range(3):
            part.create(target)
            part.merge(target, insert(next(seq), 1, f"{round_}"), insert(next(seq), 2, "x"))
            assert part.rows() == Counter([(1, f"{round_}"), (2, "x")])
            if round_ < 2 or number:
                target.apply(part.table, Drop(), part.load)
                assert part.applied(target) is None

    with ThreadPoolExecutor(len(made)) as pool:
        for one in [pool.submit(live, number, part) for number, part in enumerate(made)]:
            one.result()
    assert place.read(made[0].table, KEYED, Mode.MIRROR) == Counter(
        [(1, "2", made[0].tenant), (2, "x", made[0].tenant)]
    )


def test_upkeep_leaves_parts_as_they_are(place: TargetPlace, parts: Callable[..., list[Part]]) -> None:
    target = place.target()
    one, two = parts()
    one.create(target)
    two.create(target)
    two.merge(target, insert(0, 1, "quiet"))
    for number in range(1, 40):
        one.merge(target, insert(number, number, "x"), update(number, (1, "x"), (1, f"{number}")))
        target.maintain(one.table)
    assert (one.applied(target), two.applied(target)) == (39, 0)
    assert two.rows() == Counter([(1, "quiet")])
    assert sum(one.rows().values()) == 39
