"""Soft delete and history without Spark, against a model: random changes, batches cut anywhere, a clock that runs
backwards.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from replicator.folding import history_and_soft_delete
from replicator.model.mode import Mode
from replicator.model.schema import BEFORE, COMMIT_TS, OPERATION, SEQUENCE
from tests.integration.direct.play import Play
from tests.integration.spark.mode_models import Model
from tests.staged import TS, Change, Row, read

SECOND = dt.timedelta(seconds=1)


def timed(changes: list[Change], random: Random) -> list[Change]:
    return [replace(change, at=TS + SECOND * (change.seq // 7 + random.randint(-3, 3))) for change in changes]


def as_arrow(play: Play, changes: list[Change]) -> pa.Table:
    schema = play.schema
    nothing = (None,) * len(schema.columns)
    columns: dict[str, list[object]] = {
        SEQUENCE: [c.seq for c in changes],
        OPERATION: [c.op for c in changes],
        COMMIT_TS: [c.at for c in changes],
    }
    for place, name in enumerate(schema.names):
        columns[name] = [((c.row if c.op != "DELETE" else None) or nothing)[place] for c in changes]
        if name in schema.key:
            columns[name] = [((c.row or c.before) or nothing)[place] for c in changes]
            columns[BEFORE + name] = [(c.before or nothing)[place] for c in changes]
    arrow = schema.change_arrow
    return pa.table([pa.array(v, arrow.field(n).type) for n, v in columns.items()], names=list(columns))


class Target:
    """Rows as the target has them, and what a merge makes of them."""

    def __init__(self, play: Play, mode: Mode) -> None:
        self.play, self.mode = play, mode
        own = {name: kind.arrow for name, kind in mode.columns.items()}
        kinds = {c.name: c.type.arrow for c in play.schema.columns} | {SEQUENCE: pa.int64()} | own
        self.held = pa.schema(list(kinds.items())).empty_table()

    def merge(self, changes: list[Change]) -> None:
        table = as_arrow(self.play, changes)
        fold = history_and_soft_delete.versions if self.mode is Mode.HISTORY else history_and_soft_delete.soft_deleted
        # Rows under keys that the changes do not touch are never shown to the fold: it must not be disturbed by them
        # either.
        kept = fold(table, self.held, self.play.schema)
        own = {name: table.column(name) for name in self.held.column_names if name in table.column_names}
        blank = {n: own.get(n, pa.nulls(len(table), self.held.schema.field(n).type)) for n in self.held.column_names}
        put = pa.concat_tables([pa.table(blank, schema=self.held.schema), self.held]).take(pa.array(kept.rows))
        for name, values in kept.own.items():
            put = put.set_column(put.schema.get_field_index(name), name, values)
        stays = sorted(set(range(len(self.held))) - set(kept.gone.tolist()))
        assert len(put) - len(kept.gone) == kept.new
        self.held = pa.concat_tables([self.held.take(pa.array(stays, pa.int64())), put.cast(self.held.schema)])

    def rows(self) -> Counter[Row]:
        return Counter(zip(*(column.to_pylist() for column in self.held.columns), strict=True))


@pytest.mark.parametrize("mode", [Mode.SOFT_DELETE, Mode.HISTORY])
@pytest.mark.parametrize("seed", range(12))
def test_changes_in_any_batches_end_as_their_model(mode: Mode, seed: int) -> None:
    random = Random(f"kept {seed}")
    play = Play(random, (("int",), ("string",), ("bigint", "string"))[seed % 3], keyspace=random.choice((2, 5, 12)))
    model = Model(tuple(play.schema.names.index(name) for name in play.keys))
    target = Target(play, mode)
    for _ in range(12):
        changes = play.batch(random.choice((1, 3, 20)))
        again = random.sample(list(play.rows.values()), min(2, len(play.rows)))
        changes = timed([*changes, *(read(play.next(), *row) for row in again)], random)
        for change in changes:
            model.apply(change)
        cut = random.randrange(len(changes) + 1)
        for part in (changes[:cut], changes[cut:]):
            target.merge(part)
        assert target.rows() == Counter(model.rows(mode))


def test_a_change_older_than_the_row_that_a_load_read_is_left_alone() -> None:
    random = Random(1)
    play = Play(random, ("int",))
    for mode in (Mode.SOFT_DELETE, Mode.HISTORY):
        target = Target(play, mode)
        row = play.row(3)
        target.merge([read(50, *row)])
        before = target.rows()
        target.merge([replace(read(40, *play.row(3)), op="INSERT"), Change(41, "DELETE", row, row)])
        assert target.rows() == before
        target.merge([Change(60, "DELETE", row, row)])
        target.merge([Change(55, "DELETE", row, row)])
        assert [r[len(row)] for r in target.rows()] == [60 if mode is Mode.SOFT_DELETE else 50]
