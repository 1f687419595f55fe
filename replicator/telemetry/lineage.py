"""Which source column a target column comes from, at every version of a table, and each column's life over the
versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from replicator.model import mode as modes
from replicator.model.computed import ComputedKind
from replicator.model.mode import Mode
from replicator.model.schema import COMMIT_TS, OPERATION, SEQUENCE, UNCHANGED, Column
from replicator.model.types import BIGINT, DataType, Kind
from replicator.telemetry.differences import Change, ColumnChange, Definition, SchemaDifference, difference

OWN = {
    modes.DELETED: "whether the row was deleted in the source",
    modes.DELETED_AT: "when it was deleted: the commit time, or the detection time if a resnapshot found it missing",
    modes.VALID_FROM: (
        "the commit's time of the change that made this version; of a row that was read, the time of the read"
    ),
    modes.VALID_TO: "when the next version began, or the row was deleted; null while it is current",
    modes.CURRENT: "whether it is the current version",
    OPERATION: "what the change did",
    COMMIT_TS: "when it was committed in the source; null for a row that was read",
    UNCHANGED: "columns, as a JSON list, whose values the source left out as unchanged",
    modes.BELOW: "of a TRUNCATE_TABLE or SWEEP: rows without a change from this number on are deleted",
}

TEMPORAL = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
TEMPORAL_NAMES = ("date", "datetime", "timestamp")
GONE = frozenset({ColumnChange.DROPPED, ColumnChange.KEPT, ColumnChange.LEFT_OUT})
NO_DATE = "an invalid date (zero date)"


@dataclass(frozen=True)
class ColumnStep:
    """Something that a version did to a column; `column` as it is from then on."""

    version: int
    fate: ColumnChange
    column: Column
    text: str


@dataclass(frozen=True)
class ColumnHistory:
    """One column under all the names it had.

    `last`: the newest version that has it, None while the source has it still.
    """

    steps: tuple[ColumnStep, ...]
    last: int | None = None

    @property
    def first(self) -> int:
        return self.steps[0].version

    @property
    def name(self) -> str:
        """Its newest."""
        return self.steps[-1].column.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it had, from old to new."""
        return tuple(dict.fromkeys(step.column.name for step in self.steps))

    @property
    def kept(self) -> bool:
        """Gone from the source, and still in the target."""
        return self.steps[-1].fate is ColumnChange.KEPT

    def at(self, version: int) -> Column | None:
        """What the source had at that version; None before and after its life."""
        if version < self.first or (self.last is not None and version > self.last):
            return None
        return next(step.column for step in reversed(self.steps) if step.version <= version)


@dataclass(frozen=True)
class FieldLine:
    """One line of the lineage at a version: source column → target column.

    source and target are empty where the column is on one side only (`_sequence_num` and kept columns; columns left
    out).
    was: its name in the version before, where that was another.  notes: policies, masks and warnings that concern its
    values.
    """

    source: str
    source_type: str
    type: DataType | None
    target: str
    target_type: str
    key: bool = False
    nullable: bool = True
    fate: ColumnChange = ColumnChange.SAME
    was: str = ""
    notes: tuple[str, ...] = ()
    life: ColumnHistory | None = None
    masked: bool = False

    @property
    def plain(self) -> bool:
        """Nothing to say of it but that it is copied as it is."""
        renamed = self.life is not None and len(self.life.names) > 1
        return self.fate in {ColumnChange.SAME, ColumnChange.FIRST} and not (self.key or self.notes or renamed)


def lives(definitions: Sequence[Definition]) -> list[ColumnHistory]:
    """From the oldest version to the newest, in the order in which the columns came."""
    places = {one.version: one.schema.names.index for one in definitions}
    living: dict[str, ColumnHistory] = {}
    ended: list[ColumnHistory] = []
    for before, after in zip([None, *definitions], definitions, strict=False):
        if before is None:
            living = {
                c.name: ColumnHistory((_step(after, Change(ColumnChange.FIRST, None, c)),))
                for c in after.schema.columns
            }
            continue
        living = _next_generation(living, ended, difference(before, after), after)
    return sorted([*ended, *living.values()], key=lambda life: (life.first, places[life.first](life.names[0])))


def _next_generation(
    living: dict[str, ColumnHistory], ended: list[ColumnHistory], diff: SchemaDifference, after: Definition
) -> dict[str, ColumnHistory]:
    born: dict[str, ColumnHistory] = {}
    for change in diff.changes:
        step = _step(after, change)
        if change.fate in GONE:
            life = living.pop(change.column.name)
            ended.append(replace(life, steps=(*life.steps, step), last=after.version - 1))
        elif change.old is None:
            born[change.column.name] = ColumnHistory((step,))
            _overwrite(ended, after, change.column)
        else:
            life = living.pop(change.old.name)
            born[change.column.name] = replace(life, steps=(*life.steps, step))
            if change.fate is ColumnChange.RENAMED:
                _overwrite(ended, after, change.column)
    return {column.name: born.get(column.name) or living[column.name] for column in after.schema.columns}


def _overwrite(ended: list[ColumnHistory], after: Definition, column: Column) -> None:
    """A column that stayed in the target makes room for one of its name."""
    for index, life in enumerate(ended):
        if life.kept and life.name == column.name:
            text = f"replaced in the target by a new column {column.name}"
            ended[index] = replace(
                life,
                steps=(*life.steps, ColumnStep(after.version, ColumnChange.OVERWRITTEN, life.steps[-1].column, text)),
            )


def _step(after: Definition, change: Change) -> ColumnStep:
    return ColumnStep(after.version, change.fate, change.column, change.text)


@dataclass(frozen=True)
class Policy:
    """What the replicator's options say about values; `zero_dates` is null, text or fail; empty where the source has no
    such.
    """

    zero_dates: str = "null"


def fields(
    definitions: Sequence[Definition],
    version: int,
    *,
    target_type: Callable[[DataType], str],
    policy: Policy | None = None,
    made_anew: int = 0,
    mode: Mode = Mode.MIRROR,
) -> list[FieldLine]:
    """Return the lineage at `version`: the schema's columns in order, columns left out, kept columns, Tidemark's own.

    target_type: the target's name of a type.  made_anew: the newest version that existed when the target's table was
    last recreated, which removed all columns kept until then.  KeyError where there is no such version.
    """
    history = [one for one in definitions if one.version <= version]
    present = next((one for one in history if one.version == version), None)
    if present is None:
        raise KeyError(version)
    changes = _changes(history)
    living, kept = {}, []
    for life in lives(history):
        if (column := life.at(version)) is not None:
            living[column.name] = life
        elif life.kept and life.steps[-1].version > made_anew:
            kept.append(life)
    known = policy or Policy()
    lines = [
        _line(present, column, changes.get(column.name), living[column.name], target_type, known)
        for column in present.schema.columns
    ]
    lines += [
        FieldLine(
            name,
            "",
            None,
            "",
            "",
            fate=ColumnChange.LEFT_OUT,
            notes=("excluded by the selection: it never leaves the source",),
        )
        for name in sorted(present.left_out)
    ]
    lines += [_kept_line(life, target_type) for life in sorted(kept, key=lambda life: life.name)]
    own = ("the number of the change that made the row",)
    lines.append(FieldLine("", "", BIGINT, SEQUENCE, target_type(BIGINT), nullable=False, notes=own))
    return lines + [
        FieldLine("", "", kind, name, target_type(kind), notes=(OWN[name],)) for name, kind in mode.columns.items()
    ]


def _changes(history: Sequence[Definition]) -> dict[str, Change]:
    """What the newest version did to the columns that it has, by name."""
    if len(history) < 2:  # noqa: PLR2004 - the first has nothing before it
        return {column.name: Change(ColumnChange.FIRST, None, column) for column in history[-1].schema.columns}
    return {c.column.name: c for c in difference(history[-2], history[-1]).changes if c.new is not None}


def _line(
    present: Definition,
    column: Column,
    change: Change | None,
    life: ColumnHistory,
    target_type: Callable[[DataType], str],
    policy: Policy,
) -> FieldLine:
    key = column.name in present.schema.key
    was = (
        change.old.name if change is not None and change.fate is ColumnChange.RENAMED and change.old is not None else ""
    )
    source, source_type = column.name, column.source_type
    if column.computed is not None:
        source, source_type = column.computed.value if column.computed.kind is ComputedKind.CAST else "", ""
    return FieldLine(
        source=source,
        source_type=source_type,
        type=column.type,
        target=column.name,
        target_type=target_type(column.type),
        key=key,
        nullable=column.nullable,
        fate=change.fate if change is not None else ColumnChange.SAME,
        was=was,
        notes=value_notes(column, policy, key=key),
        life=life,
        masked=column.masked is not None,
    )


def _kept_line(life: ColumnHistory, target_type: Callable[[DataType], str]) -> FieldLine:
    column = life.steps[-1].column
    note = f"dropped in the source with version {life.steps[-1].version}; stays in the target, null in new rows"
    return FieldLine(
        "", "", column.type, column.name, target_type(column.type), fate=ColumnChange.KEPT, notes=(note,), life=life
    )


def value_notes(column: Column, policy: Policy, *, key: bool = False) -> tuple[str, ...]:
    """What happens to values that the column's type here cannot hold."""
    notes = [column.warning] if column.warning else []
    if column.computed is not None:
        return (f"computed: {column.computed}",)
    if column.masked is not None:
        return (f"masked before it is staged: {column.masked.mask}", *notes)
    if column.type.kind in TEMPORAL and policy.zero_dates:
        if key or policy.zero_dates != "null":
            notes.append(f"{NO_DATE} stops the table")
        else:
            notes.append(f"{NO_DATE} becomes null, and is counted")
    elif (
        policy.zero_dates
        and column.type.kind is Kind.STRING
        and column.source_type.lower().startswith(TEMPORAL_NAMES)
        and not notes
    ):
        notes.append("kept as text, by the policy for zero dates")
    return tuple(notes)


def exact(line: FieldLine) -> bool:
    """The target's value is the source's own, under another type's name at most."""
    return bool(line.source and line.target and not line.notes)
