"""The lineage of a replicator's tables, read from the journal's schema versions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Max, Q
from django.db.models.fields.json import KeyTextTransform

from replicator.model.mode import Mode
from replicator.telemetry.differences import Definition, difference
from replicator.telemetry.lineage import ColumnHistory, FieldLine, Policy, fields, lives
from webapp.replicators.models import Replicator, ReplicatorTable, SchemaVersion
from webapp.replicators.targets import kind_of

VERSIONS = 200  # newest ones that a page goes through
COLLAPSE_FROM = 4  # this many plain columns in a row, or more, are shown as one line


@dataclass(frozen=True)
class VersionEntry:
    """A version for the picker and the history."""

    number: int
    at: datetime
    changes: Sequence[str]
    statement: str
    decision: str


@dataclass(frozen=True)
class CollapsedLines:
    """Lines that are shown one by one, or (collapsed) as one."""

    lines: Sequence[FieldLine]
    collapsed: bool = False


@dataclass(frozen=True)
class TableLineage:
    """One table at one version.

    `hidden`: lines that the search left out; `past`: columns that the source has no more, then.
    """

    table: ReplicatorTable
    version: int
    versions: Sequence[VersionEntry]
    older: int
    runs: Sequence[CollapsedLines]
    columns: int
    found: int
    past: Sequence[ColumnHistory]
    source: str = ""
    target: str = ""

    @property
    def newest(self) -> bool:
        return not self.versions or self.version == self.versions[0].number


def history(table: ReplicatorTable) -> list[SchemaVersion]:
    """The newest versions, oldest first: one query."""
    return list(table.schemas.order_by("-version")[:VERSIONS])[::-1]


def made_anew(table: ReplicatorTable, versions: Sequence[SchemaVersion], shown: int) -> int:
    """The newest version that was there when the target's table was last made from nothing, while `shown` held; 0 for
    none.

    A load of a table without key replaces its rows and keeps the table.
    """
    if table.keyless:
        return 0
    runs = table.runs.filter(fresh=True)
    if after := [one.created_at for one in versions if one.version > shown]:
        runs = runs.filter(created_at__lt=after[0])
    begun = runs.aggregate(at=Max("created_at"))["at"]
    return max((one.version for one in versions if begun is not None and one.created_at <= begun), default=0)


def lineage_at(
    replicator: Replicator, mode: str, definitions: Sequence[Definition], version: int, anew: int = 0
) -> list[FieldLine]:
    """Field by field, under the replicator's present policies and in a table's mode; without query."""
    return fields(
        definitions,
        version,
        target_type=kind_of(replicator).type_name,
        policy=Policy(_date_policy(replicator)),
        made_anew=anew,
        mode=Mode(mode),
    )


def _date_policy(replicator: Replicator) -> str:
    """Empty where the source has no dates that the target has not."""
    offered = {one.name for one in replicator.connection.value_options}
    return replicator.parsed_options.zero_dates if "zero_dates" in offered else ""


def table_lineage(
    table: ReplicatorTable, *, version: int | None = None, search: str = "", collapse: bool = True
) -> TableLineage | None:
    """Two queries; None while no version is known.  An unknown version is the newest."""
    stored = history(table)
    if not stored:
        return None
    definitions = [one.definition for one in stored]
    numbers = {one.version for one in definitions}
    shown = version if version in numbers else definitions[-1].version
    lines = lineage_at(table.replicator, table.mode, definitions, shown, made_anew(table, stored, shown))
    found = [line for line in lines if _matches(line, search)]
    upto = [one for one in definitions if one.version <= shown]
    schema = upto[-1].schema
    return TableLineage(
        table=table,
        version=shown,
        versions=_versions(stored, definitions),
        older=definitions[0].version - 1,
        runs=runs(found, collapse=collapse and not search),
        columns=len(schema.columns),
        found=len(found),
        past=[life for life in lives(upto) if life.last is not None],
        source=str(schema.table),
        target=f"{table.target_namespace}.{table.target_name}",
    )


def _matches(line: FieldLine, search: str) -> bool:
    needle = search.lower()
    names = (line.source, line.target, line.source_type, str(line.type or ""), line.target_type)
    return any(needle in name.lower() for name in (*names, *(line.life.names if line.life else ())))


def _versions(stored: Sequence[SchemaVersion], definitions: Sequence[Definition]) -> list[VersionEntry]:
    """Newest first."""
    before: list[Definition | None] = [None, *definitions[:-1]]
    said = []
    for row, old, new in zip(stored, before, definitions, strict=True):
        texts = (
            difference(old, new).texts
            if old is not None
            else ["first seen" if new.version == 1 else "the oldest shown"]
        )
        decision = str(row.change.get("decision", "")) if row.change else row.decision
        said.append(VersionEntry(row.version, row.created_at, texts, row.statement, decision))
    return said[::-1]


def runs(lines: Sequence[FieldLine], *, collapse: bool) -> list[CollapsedLines]:
    """Plain lines that follow each other are one run, collapsed where it is worth it."""
    found: list[list[FieldLine]] = []
    for line in lines:
        if found and (not collapse or found[-1][-1].plain == line.plain):
            found[-1].append(line)
        else:
            found.append([line])
    return [CollapsedLines(run, collapsed=collapse and run[0].plain and len(run) >= COLLAPSE_FROM) for run in found]


@dataclass(frozen=True)
class TableNode:
    """A table on the overview: both ends, what is between them, the names it had."""

    table: ReplicatorTable
    columns: int
    versions: int
    changed_at: datetime | None
    former: Sequence[str] = field(default_factory=tuple)
    notes: int = 0
    left_out: int = 0

    @property
    def target(self) -> str:
        return f"{self.table.target_namespace}.{self.table.target_name}"


def overview(replicator: Replicator, tables: Sequence[ReplicatorTable]) -> list[TableNode]:
    """Return a node for each table, with three queries for any number of tables."""
    ids = [table.pk for table in tables]
    counted = {
        row["table_id"]: (row["n"], row["changed"])
        for row in SchemaVersion.objects.filter(table__in=ids)
        .order_by()
        .values("table_id")
        .annotate(n=Count("id"), changed=Max("created_at", filter=Q(version__gt=1)))
    }
    former, newest = _former_names(ids), newest_versions(ids)
    return [
        _node(replicator, table, newest[table.pk], counted[table.pk], former.get(table.pk, []))
        if table.pk in newest
        else TableNode(table, 0, 0, None)
        for table in tables
    ]


def newest_versions(tables: Sequence[int]) -> dict[int, SchemaVersion]:
    """Return the newest version of each table, with one query for any number of tables."""
    found = SchemaVersion.objects.filter(table__in=tables).order_by("table_id", "-version").distinct("table_id")
    return {one.table_id: one for one in found}


def _former_names(ids: Sequence[int]) -> dict[int, list[str]]:
    names = (
        SchemaVersion.objects.filter(table__in=ids)
        .annotate(database=KeyTextTransform("database", "schema"), name=KeyTextTransform("table", "schema"))
        .order_by("table_id", "database", "name")
        .values_list("table_id", "database", "name")
        .distinct()
    )
    found: dict[int, list[str]] = {}
    for table, database, name in names:
        found.setdefault(table, []).append(f"{database}.{name}")
    return found


def _node(
    replicator: Replicator,
    table: ReplicatorTable,
    newest: SchemaVersion,
    counted: tuple[int, datetime | None],
    names: Sequence[str],
) -> TableNode:
    definition = newest.definition
    lines = lineage_at(replicator, table.mode, [definition], definition.version)
    return TableNode(
        table=table,
        columns=len(definition.schema.columns),
        versions=counted[0],
        changed_at=counted[1],
        former=[name for name in names if name != str(table)],
        notes=sum(bool(line.source and line.target and line.notes) for line in lines),
        left_out=len(definition.left_out),
    )
