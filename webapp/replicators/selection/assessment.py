"""What a replicator would make of the selected tables, before it is created: support per table and column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from replicator.errors import TableError
from replicator.model.change import Cascade
from replicator.model.computed import Computed
from replicator.model.computed_rules import ComputedColumns
from replicator.model.identifiers import TableId, written_database
from replicator.model.masks import Mask
from replicator.model.mode import Mode
from replicator.model.routing import Routing
from replicator.model.schema import RESERVED, TableSchema
from replicator.model.table_set import TableSet
from replicator.model.types import STRING, DataType, Kind, widens
from replicator.selection.computing import refusal
from replicator.selection.masking import masked_schema
from replicator.sources.base import Catalog, TableInfo, cascades_of
from replicator.sources.registry import source_kind
from replicator.state.journal import DDL_OPERATIONS
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.kind import ICEBERG
from replicator.targets.kind import FULL, NONE, PARTIAL, TargetKind
from webapp.connections import selectors as connections
from webapp.connections.models import Connection
from webapp.replicators.options import ReplicatorOptions
from webapp.replicators.selection.entries import SelectionEntry, selected, under
from webapp.replicators.selection.target_names import TargetName

TEMPORAL = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ})
PAGE = 1000
DESCRIBE = 500


@dataclass(frozen=True)
class ColumnAssessment:
    """`note` says what is not full."""

    name: str
    source_type: str
    target_type: str
    support: str
    note: str = ""


@dataclass(frozen=True)
class TableAssessment:
    """`key`: what identifies a row (primary, unique, or empty); rows and bytes are estimates.

    excludable: the column without which the table might be copied, where it cannot be copied with it.
    """

    table: TableId
    support: str
    key: str
    rows: int
    bytes: int
    columns: tuple[ColumnAssessment, ...] = ()
    reasons: tuple[str, ...] = field(default=())
    excludable: str = ""


def assess(
    *,
    connection: Connection,
    selection: Sequence[SelectionEntry],
    options: ReplicatorOptions,
    target: TargetKind = ICEBERG,
    settings: Mapping[str, Any] | None = None,
) -> list[TableAssessment]:
    """One per selected table that exists or was named, by name; before them one per database or pattern that takes
    nothing.  Raises SourceError where the source cannot be asked; ConfigurationError for settings that make no sense.

    settings: what the replicator sets of its target.
    """
    with connections.opened(connection) as source:
        selection = under(source.names(), selection)
        source.tables = selected(selection)
        catalog = source.catalog()
        found = selected_tables(catalog, source.tables)
        lines = {TableId(e.database, e.table): e for e in selection if not e.wide}
        left_out = {table: line.excluded_columns for table, line in lines.items()}
        described: dict[TableId, TableSchema | TableError] = {}
        names = sorted(found)
        for start in range(0, len(names), DESCRIBE):
            described |= connections.described(source, names[start : start + DESCRIBE], left_out)
        cascades = cascades_of(catalog, names)
    assessed = [
        _assess_table(
            table,
            found[table],
            described.get(table),
            lines.get(table) or SelectionEntry(table.database, table.name),
            options,
            target,
            source_kind(connection.kind).whole_rows,
        )
        for table in names
    ]
    assessed = _with_names(assessed, target, settings or {})
    assessed = _with_united_columns(assessed, described, lines, target, settings or {})
    computed = ComputedColumns.parse(settings or {})
    assessed = [
        _with_computed(one, described.get(one.table), computed.of(one.table), lines.get(one.table), target)
        for one in assessed
    ]
    said = {(entry.database, entry.table): entry.mode for entry in selection if entry.mode}
    modes = {t: Mode(said.get((t.database, t.name)) or said.get((t.database, "")) or options.mode) for t in names}
    routing, first = Routing.of(settings or {}), dict[tuple[str, ...], Mode]()
    assessed = [
        _in_mode(
            one,
            described.get(one.table),
            modes[one.table],
            target,
            frozenset(lines[one.table].excluded_columns if one.table in lines else ()),
        )
        if (route := routing.route(one.table)) is None or not route.column
        else _in_shared_mode(one, modes[one.table], first.setdefault(route[:2], modes[one.table]), target)
        for one in assessed
    ]
    nothing = [
        _takes_nothing(entry) for entry in selection if entry.wide and not entry.excluded and not _takes(entry, found)
    ]
    return [*nothing, *(_with_cascades(one, cascades, found) for one in assessed)]


def _with_names(
    assessed: Sequence[TableAssessment], target: TargetKind, settings: Mapping[str, Any]
) -> list[TableAssessment]:
    """What each is called in the target; two tables cannot be written to one."""
    routing = Routing.of(settings)
    places = {one.table: TargetName(*target.table_name(settings, one.table)) for one in assessed}
    by_name = _by_name(places)
    found = []
    for one in assessed:
        place = places[one.table]
        others = [table for table in by_name[place[:2]] if table != one.table]
        reasons, support = [], one.support
        if clash := [table for table in others if place.excludes(places[table])]:
            reasons = [f"{one.table} and {clash[0]} would both be written to {place}. Change the routing rules."]
            support = NONE
        elif place.part:
            whole, (column, value) = TargetTable(*place).whole, TargetTable(*place).tenant
            several = f"{len(others)} other table{'' if len(others) == 1 else 's'}"
            reasons = [f"Its rows go to {whole} with {column} = {value!r}, together with those of {several}."]
        elif routing.route(one.table) is None and target.identifiers.legal(one.table.name) != one.table.name:
            reasons = [f"The table is called {place[1]} in {target.title}."]
        elif routing.route(one.table) is not None:
            reasons = [f"The table is called {place} in {target.title}."]
        found.append(replace(one, support=support, reasons=(*one.reasons, *reasons)))
    return found


def _by_name(places: Mapping[TableId, TargetName]) -> dict[tuple[str, ...], list[TableId]]:
    found: dict[tuple[str, ...], list[TableId]] = {}
    for table, place in places.items():
        found.setdefault(place[:2], []).append(table)
    return found


def _with_united_columns(
    assessed: Sequence[TableAssessment],
    described: Mapping[TableId, TableSchema | TableError],
    lines: Mapping[TableId, SelectionEntry],
    target: TargetKind,
    settings: Mapping[str, Any],
) -> list[TableAssessment]:
    """Of tables that share a target table: a column has one type there, which holds the values of all of them."""
    kinds: dict[tuple[object, ...], tuple[TableId, DataType]] = {}
    found = []
    for one in assessed:
        place, schema = TargetName(*target.table_name(settings, one.table)), described.get(one.table)
        reasons = []
        if place.part and isinstance(schema, TableSchema) and one.support != NONE:
            line = lines.get(one.table)
            for column in masked_schema(schema, line.masks if line else {}).columns:
                if line and column.name in line.excluded_columns:
                    continue
                first, kind = kinds.setdefault((*place[:2], column.name), (one.table, column.type))
                if widens(kind, column.type):
                    kinds[*place[:2], column.name] = (one.table, column.type)
                elif kind != column.type and not widens(column.type, kind):
                    reasons.append(
                        f"{column.name} is {column.type} here and {kind} in {first}, which shares the target table."
                        " Leave the column out, or route one of them to a separate target table."
                    )
        support = NONE if reasons else one.support
        found.append(replace(one, support=support, reasons=(*one.reasons, *reasons)))
    return found


def _with_computed(
    one: TableAssessment,
    schema: TableSchema | TableError | None,
    computed: Mapping[str, Computed],
    line: SelectionEntry | None,
    target: TargetKind,
) -> TableAssessment:
    if not computed or not isinstance(schema, TableSchema) or one.support == NONE:
        return one
    left_out, masks = (line.excluded_columns, line.masks) if line else ((), {})
    known = replace(schema, columns=tuple(column for column in schema.columns if column.name not in left_out))
    known = masked_schema(known, masks)
    columns = []
    for name, column in computed.items():
        why = refusal(name, column, known)
        support = NONE if why else target.types(column.type).support
        columns.append(ColumnAssessment(name, str(column), target.type_name(column.type), support, why))
    return replace(
        one,
        columns=(*one.columns, *columns),
        reasons=(*one.reasons, *(column.note for column in columns if column.note)),
        support=_worst([one.support, *(column.support for column in columns)]),
    )


def _takes(entry: SelectionEntry, found: Collection[TableId]) -> bool:
    taken = selected([replace(entry, found=None)])
    return any(table in taken for table in found)


def _takes_nothing(entry: SelectionEntry) -> TableAssessment:
    """A name that is spelled wrong would be followed for ever without a word."""
    line = TableId(entry.database, entry.table or "*")
    why = f"{written_database(line.database)}.{line.name} matches no table of the source."
    later = " Future tables that match are included." if entry.new_tables else ""
    return TableAssessment(line, PARTIAL, "", 0, 0, reasons=(f"{why}{later} Quote a name that contains a dot.",))


def _in_mode(
    one: TableAssessment,
    schema: TableSchema | TableError | None,
    mode: Mode,
    target: TargetKind,
    left_out: frozenset[str],
) -> TableAssessment:
    """Check the mode: a target may not have it, some modes need a key, and each adds its own columns."""
    if mode not in (target.capabilities.modes or Mode):
        why = f"{target.title} does not have the mode {mode.label}."
        return replace(one, support=NONE, reasons=(*one.reasons, why))
    try:
        if isinstance(schema, TableSchema) and one.support != NONE:
            mode.check(replace(schema, columns=tuple(c for c in schema.columns if c.name not in left_out)))
    except TableError as error:
        return replace(one, support=NONE, reasons=(*one.reasons, f"{error.message} {error.remedy}"))
    return one


def _in_shared_mode(one: TableAssessment, mode: Mode, first: Mode, target: TargetKind) -> TableAssessment:
    """first: of the first of those that share the target table."""
    able = target.capabilities.shared_modes
    if mode not in able:
        modes = ", ".join(sorted(each.label for each in able))
        why = f"Tables that share a target table cannot be in the mode {mode.label}. Choose one of: {modes}."
    elif mode is not first:
        why = f"Tables that share a target table need the same mode: {mode.label} here, {first.label} in another."
    else:
        return one
    return replace(one, support=NONE, reasons=(*one.reasons, why))


def _with_cascades(one: TableAssessment, cascades: Sequence[Cascade], selected: Collection[TableId]) -> TableAssessment:
    """Report foreign key actions, which the source's log lacks: with the parent selected, the table is resnapshotted;
    otherwise its changes are missed.
    """
    parents = sorted({rule.parent for rule in cascades if rule.child == one.table})
    unseen = [parent for parent in parents if parent not in selected]
    reasons = list(one.reasons)
    if seen := [str(parent) for parent in parents if parent not in unseen]:
        reasons.append(
            f"Foreign key actions of {', '.join(seen)} change its rows without entries in the source's log: "
            "the table is resnapshotted each time."
        )
    if unseen:
        reasons.append(
            f"Foreign key actions of {', '.join(map(str, unseen))} change its rows without entries in the source's log."
            " Select that table too, or such changes are missed."
        )
    support = PARTIAL if unseen and one.support == FULL else one.support
    return replace(one, reasons=tuple(reasons), support=support)


def selected_tables(catalog: Catalog, taken: TableSet) -> dict[TableId, TableInfo | None]:
    """Tables that are taken now; None for a table that was named and is not there."""
    named = taken.tables - taken.excluded
    found: dict[TableId, TableInfo | None] = dict.fromkeys(named)
    found |= catalog.infos(sorted(table for table in named if table.database not in taken.searched))
    for database in sorted(taken.searched):
        offset, total = 0, 1
        while offset < total:
            page, total = catalog.tables(database=database, limit=PAGE, offset=offset)
            found |= {info.table: info for info in page if info.table in taken}
            offset += PAGE
    return found


def _assess_table(
    table: TableId,
    info: TableInfo | None,
    schema: TableSchema | TableError | None,
    taken: SelectionEntry,
    options: ReplicatorOptions,
    target: TargetKind,
    whole_rows: str,
) -> TableAssessment:
    left_out = frozenset(taken.excluded_columns)
    rows, size, key = (info.rows, info.bytes, info.key) if info else (0, 0, "")
    if schema is None:
        return TableAssessment(table, NONE, key, rows, size, reasons=(f"{table} does not exist.",))
    if isinstance(schema, TableError):
        reason = f"{schema.message} {schema.remedy}"
        return TableAssessment(table, NONE, key, rows, size, reasons=(reason,), excludable=schema.column)
    columns = tuple(
        _masked(_assess_column(schema, column.name, options, target), schema, taken.masks, target)
        for column in schema.columns
        if column.name not in left_out
    )
    reasons = [f"{column.name}: {column.note}" for column in columns if column.note]
    if not schema.key:
        reasons.append("No key: rows are compared over all columns, and a snapshot reads the table in one chunk.")
    reasons += info.notes if info else ()
    reasons += _target_reasons(target)
    absent = set(info.absent if info else ()) - left_out
    if absent:
        reasons.append(
            f"Columns that are missing in the source's log and therefore excluded: {', '.join(sorted(absent))}."
        )
    if missing := sorted(left_out - set(schema.names) - set(info.absent if info else ())):
        reasons.append(f"Excluded columns that do not exist: {', '.join(missing)}.")
    if in_key := sorted(left_out & set(schema.key)):
        reasons.append(f"Key columns cannot be excluded: {', '.join(in_key)}.")
    if unknown := sorted(set(taken.masks) - set(schema.names)):
        reasons.append(f"Masked columns that do not exist: {', '.join(unknown)}.")
    if why := taken.row_filter.refusal(schema):
        reasons.append(f"Row filter: {why}" + (f" {whole_rows}" if schema.partial else ""))
    impossible = [NONE] * bool(in_key or unknown or why)
    support = _worst([column.support for column in columns] + impossible + [PARTIAL] * bool(absent))
    return TableAssessment(table, support, key, rows, size, columns, tuple(reasons))


def _target_reasons(target: TargetKind) -> list[str]:
    """What this kind of target does not do as the source does."""
    if missing := sorted(set(DDL_OPERATIONS) - target.capabilities.ddl):
        return [f"{target.title} cannot follow {', '.join(missing).replace('_', ' ')}: the table then stops."]
    return []


def _assess_column(schema: TableSchema, name: str, options: ReplicatorOptions, target: TargetKind) -> ColumnAssessment:
    column = schema.column(name)
    found = target.types(column.type)
    if name.lower() in RESERVED:
        note = "This name is reserved by Tidemark."
        return ColumnAssessment(name, column.source_type, found.name, NONE, note)
    if why := target.refused_column(name):
        return ColumnAssessment(name, column.source_type, found.name, NONE, why)
    note = column.warning
    if not note and column.type.kind in TEMPORAL and options.zero_dates == "text":
        found = target.types(STRING)
        note = "Stored as text by the replicator's policy for dates like 0000-00-00 or infinity."
    support = _worst([found.support, PARTIAL if note else FULL])
    return ColumnAssessment(name, column.source_type, found.name, support, " ".join(filter(None, (note, found.note))))


def _masked(
    one: ColumnAssessment, schema: TableSchema, masks: Mapping[str, Mask], target: TargetKind
) -> ColumnAssessment:
    """A mask is the user's own wish, so nothing that has to be accepted; one that cannot be is a reason to stop."""
    mask = masks.get(one.name)
    if mask is None:
        return one
    column = schema.column(one.name)
    if why := mask.refusal(one.name, column.type, key=one.name in schema.key):
        return replace(one, support=NONE, note=why)
    return replace(one, target_type=target.type_name(mask.type(column.type)), note=f"Masked: {mask}.")


def _worst(supports: Sequence[str]) -> str:
    return next((support for support in (NONE, PARTIAL) if support in supports), FULL)
