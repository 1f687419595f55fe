"""The table selection of a replicator, and the rows of its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from secrets import token_hex
from typing import Any

from django.db.models import QuerySet

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId, TablePattern, parse_name
from replicator.model.masks import Mask, MaskKind
from replicator.model.mode import Mode
from replicator.model.row_filter import RowFilter, parse_filter
from replicator.model.table_set import EXACT_NAMES, NameRule, TableSet
from replicator.state.tables import TableState
from webapp.connections.models import Connection
from webapp.connections.secrets import seal, unseal
from webapp.connections.selectors import describe, name_rule
from webapp.replicators.models import Replicator, ReplicatorTable, TableSelection
from webapp.replicators.selection.target_names import (
    TargetName,
    checked_target_name,
    refuse_shared,
    refuse_taken,
    target_of,
)

SALT_BYTES = 32
MAX_NAME_LENGTH = 255  # what the columns of the models hold
WILD = "*?"


class ReloadScope(StrEnum):
    """ROWS: read again while the copy stays.  COPY: made from nothing, so that no row of before is left in it."""

    ROWS = "rows"
    COPY = "copy"


@dataclass(frozen=True)
class SelectionEntry:
    """One line: a table, a whole database (`table` empty), or with `pattern` all tables whose names match.

    `new_tables`: of the latter two, those that come later, too; otherwise `found`, once capture has looked (None
    before).
    `masks`: by column.  `row_filter`: which rows.
    mode: of its tables; empty: what the line says already, else the replicator's.
    target_name: of a table that gets its row by this line, in the target; None: the one that its names give.  It is the
    row's, and no part of the line.
    """

    database: str
    table: str = ""
    excluded: bool = False
    excluded_columns: tuple[str, ...] = ()
    mode: str = ""
    masks: Mapping[str, Mask] = field(default_factory=dict)
    row_filter: RowFilter = field(default_factory=RowFilter)
    pattern: bool = False
    new_tables: bool = True
    found: tuple[str, ...] | None = field(default=None, compare=False)
    target_name: TargetName | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.database}.{self.table or '*'}"

    @property
    def wide(self) -> bool:
        """Not a single table."""
        return self.pattern or not self.table

    @classmethod
    def of(cls, line: TableSelection) -> SelectionEntry:
        """A stored line."""
        return cls(
            line.database,
            line.table,
            line.excluded,
            tuple(line.excluded_columns),
            line.mode,
            line.parsed_masks,
            parse_filter(line.row_filter),
            line.pattern,
            line.new_tables,
            tuple(line.found) if line.discovered and not line.new_tables else None,
        )

    @property
    def stored(self) -> dict[str, Any]:
        """What a stored line has beside its name."""
        return {
            "excluded": self.excluded,
            "excluded_columns": sorted(self.excluded_columns),
            "masks": {name: mask.to_dict() for name, mask in sorted(self.masks.items())},
            "row_filter": str(self.row_filter),
            "mode": self.mode,
            "pattern": self.pattern,
            "new_tables": self.new_tables,
        }

    def anew(self, before: SelectionEntry) -> ReloadScope | None:
        """How the table must be read after what is taken of it was `before`; None where its rows stay as they are."""
        if (dict(self.masks), self.row_filter) != (dict(before.masks), before.row_filter):
            return ReloadScope.COPY
        return ReloadScope.ROWS if set(self.excluded_columns) != set(before.excluded_columns) else None


def rule_for(
    connection: Connection, selection: Iterable[SelectionEntry], replicator: Replicator | None = None
) -> NameRule:
    """How the source compares the names of these lines; those that a replicator has already need no asking."""
    stored = set(replicator.selection.values_list("database", "table")) if replicator else set()
    fresh = [(entry.database, entry.table) for entry in selection if (entry.database, entry.table) not in stored]
    return name_rule(connection, [name for names in fresh for name in names])


def refuse_missing(connection: Connection, lines: Iterable[SelectionEntry]) -> None:
    """ConfigurationError for a table named alone that the source does not have, or does not show us; names as the
    source has them (`under`).
    """
    wanted = [TableId(one.database, one.table) for one in lines if one.table and not one.pattern and not one.excluded]
    known = describe(connection, wanted) if wanted else {}
    if missing := [str(table) for table in wanted if table not in known]:
        raise ConfigurationError(
            f"Not found in the source: {', '.join(missing[:3])}.",
            remedy="Check the spelling and the privileges of the account.",
        )


def under(names: NameRule, selection: Iterable[SelectionEntry]) -> list[SelectionEntry]:
    """The lines under the names that the source gives to their tables, each once.

    ConfigurationError where two of one table say different things: what one of them protects would be lost (invariant
    12).
    """
    lines: dict[tuple[str, str], SelectionEntry] = {}
    for given in selection:
        entry = replace(given, database=names.name(given.database), table=names.name(given.table))
        if lines.setdefault((entry.database, entry.table), entry) != entry:
            message = f"{given} is listed twice with different settings."
            raise ConfigurationError(message, remedy="Merge the settings of a table into one entry.")
    return list(lines.values())


def check_selection(selection: Sequence[SelectionEntry]) -> None:
    """ConfigurationError where nothing would be replicated, or a line makes no sense."""
    if not any(not entry.excluded for entry in selection):
        message = "No table is selected."
        raise ConfigurationError(message, remedy="Select at least one table or one database.")
    for entry in selection:
        if not entry.database:
            message = f"The selection of {entry.table or 'a table'} has no database."
            raise ConfigurationError(message)
        if entry.excluded and not entry.table:
            message = f"The database {entry.database} cannot be excluded. Remove it from the selection."
            raise ConfigurationError(message)
        if entry.mode and entry.mode not in set(Mode):
            message = f"Unknown mode {entry.mode!r}; known modes: {', '.join(mode.value for mode in Mode)}."
            raise ConfigurationError(message)
        _check_taken(entry)


def changed_selection(replicator: Replicator, selection: Sequence[SelectionEntry]) -> list[SelectionEntry]:
    """All lines as they are with these in place of those of their names.  One query."""
    lines = {(line.database, line.table): SelectionEntry.of(line) for line in replicator.selection.all()}
    return list((lines | {(entry.database, entry.table): entry for entry in selection}).values())


def named_entry(text: str, where: str = "") -> SelectionEntry:
    """`shop.orders`, `shop.*`, `shop.order_*`, `"my.shop".*`, and with `!` before it what is not taken.

    ConfigurationError; `where` is said first.
    """
    (database, table), exact = _split(text.removeprefix("!"), where)
    if exact:
        return SelectionEntry(database, table, text.startswith("!"))
    pattern = table != "*" and any(one in table for one in WILD)
    excluded = text.startswith("!")
    whole = table == "*" and not excluded
    return SelectionEntry(database, "" if whole else table, excluded, pattern=pattern or (table == "*" and excluded))


def split_name(text: str, where: str = "") -> tuple[str, str]:
    """Database and table (`parse_name`).  ConfigurationError; `where` is said first."""
    return _split(text, where)[0]


def _split(text: str, where: str) -> tuple[tuple[str, str], bool]:
    found = parse_name(text)
    if found is None:
        message = (
            f"{where}{text!r} must be DATABASE.TABLE (SCHEMA.TABLE where the source has schemas), or with * or ? for"
            " all tables that match."
        )
        raise ConfigurationError(message, remedy='Quote a name that contains a dot: "my.schema".orders.')
    table, exact = found
    if max(len(table.database), len(table.name)) > MAX_NAME_LENGTH:
        message = f"{where}a database or table has at most {MAX_NAME_LENGTH} characters."
        raise ConfigurationError(message)
    return (table.database, table.name), exact


def selected(entries: Iterable[SelectionEntry]) -> TableSet:
    """What the lines take, without what they make of single tables."""
    lines = list(entries)
    out = frozenset(TablePattern(e.database, e.table) for e in lines if e.pattern and e.excluded)
    wide = [entry for entry in lines if entry.wide and not entry.excluded]
    live = [entry for entry in wide if entry.found is None]
    fixed = {TableId(entry.database, name) for entry in wide for name in entry.found or ()}
    return TableSet(
        tables=frozenset(
            {TableId(e.database, e.table) for e in lines if not (e.wide or e.excluded)}
            | {table for table in fixed if not any(one.matches(table) for one in out)}
        ),
        databases=frozenset(entry.database for entry in live if not entry.table),
        excluded=frozenset(TableId(e.database, e.table) for e in lines if e.excluded and not e.wide),
        patterns=frozenset(TablePattern(entry.database, entry.table) for entry in live if entry.table),
        excluded_patterns=out,
    )


def _check_taken(entry: SelectionEntry) -> None:
    special = entry.masks or entry.row_filter or (entry.pattern and (entry.excluded_columns or entry.mode))
    if special and (entry.excluded or entry.wide):
        message = f"{entry} is not a single table and cannot have masks, a row filter, a mode or excluded columns."
        raise ConfigurationError(message)
    out = [one.column for one in entry.row_filter.conditions if one.column in entry.excluded_columns]
    if out:
        message = f"{entry.database}.{entry.table}: {out[0]} is excluded, so rows cannot be filtered by it."
        raise ConfigurationError(message, remedy="Mask the column instead: the row filter is applied before masking.")
    if both := sorted(set(entry.masks) & set(entry.excluded_columns)):
        message = f"{entry.database}.{entry.table}: {both[0]} is excluded, so it cannot be masked."
        raise ConfigurationError(message)


PROTECTIONS = ("excluded_columns", "masks", "row_filter")


@dataclass(frozen=True)
class SelectionChange:
    """What `write_selection` did: `changed` lines, for people, and tables to be read."""

    changed: Sequence[str]
    anew: Mapping[TableId, ReloadScope]


def write_selection(replicator: Replicator, selection: Sequence[SelectionEntry]) -> SelectionChange:
    """Add or change lines; single tables get their rows, or lose them, at once."""
    changed: list[str] = []
    anew: dict[TableId, ReloadScope] = {}
    lines = {(line.database, line.table): line for line in replicator.selection.all()}
    for given in sorted(selection, key=lambda one: not one.table):  # a table's own line goes before its database's
        _refuse_other_modes(replicator, given)
        line = lines.get((given.database, given.table))
        entry = replace(given, mode=given.mode or (line.mode if line is not None else ""))
        before = SelectionEntry.of(line) if line is not None else SelectionEntry(entry.database, entry.table)
        if line is None or before.stored != entry.stored:
            line = line or TableSelection(replicator=replicator, database=entry.database, table=entry.table)
            for name, value in entry.stored.items():
                setattr(line, name, value)
            line.discovered = False
            line.save()
            changed.append(str(line))
        if (how := entry.anew(before)) is not None:
            anew[TableId(entry.database, entry.table)] = how
        if (
            entry.excluded and not entry.wide
        ):  # its log is not followed from now on: should it come back, it is read again
            ReplicatorTable.objects.filter(replicator=replicator, database=entry.database, name=entry.table).delete()
    last = {(entry.database, entry.table): entry for entry in selection}
    for entry in last.values():  # when all lines are there: they tell the mode
        if not (entry.wide or entry.excluded):
            ensure_table(replicator, TableId(entry.database, entry.table), entry.target_name)
    if any(mask.kind is MaskKind.HASH for entry in selection for mask in entry.masks.values()):
        _need_salt(replicator)
    if any(entry.excluded and entry.pattern for entry in selection):
        drop_unselected(replicator)
    return SelectionChange(changed, anew)


def protected(
    replicator: Replicator, entries: Sequence[SelectionEntry], named: Sequence[Collection[str]] = ()
) -> list[SelectionEntry]:
    """Each with what the line of its table protects already (invariant 12): only what its `named` has is another then.

    named: for each entry, names of PROTECTIONS.
    """
    lines = {(line.database, line.table): line for line in replicator.selection.filter(excluded=False)}
    kept = []
    for place, entry in enumerate(entries):
        line = lines.get((entry.database, entry.table))
        if line is not None and not entry.excluded:
            before = SelectionEntry.of(line)
            open_ = [name for name in PROTECTIONS if not named or name not in named[place]]
            kept.append(replace(entry, **{name: getattr(before, name) for name in open_}))
        else:
            kept.append(entry)
    return kept


def drop_unselected(replicator: Replicator, names: NameRule = EXACT_NAMES) -> None:
    """Rows of tables that no line takes any more; should such a table come back, it is read again.

    One that was dropped in the source stays until its copy is dropped too: another table may need that copy's name.
    """
    taken = names.selection(selected(SelectionEntry.of(line) for line in replicator.selection.all()))
    gone = [row.pk for row in replicator.tables.all() if names.table(row.table_id) not in taken and not _dropping(row)]
    ReplicatorTable.objects.filter(pk__in=gone).delete()


def _dropping(row: ReplicatorTable) -> bool:
    return row.table_state is TableState.DROPPED and row.last_sequence > max(row.applied, row.live_from)


def _need_salt(replicator: Replicator) -> None:
    """Made once, and kept: under another, equal values would have other hashes than before."""
    owner = Replicator.objects.select_for_update(no_key=True).get(pk=replicator.pk)
    if not owner.secrets:
        owner.secrets = seal({"salt": token_hex(SALT_BYTES)})
        owner.save(update_fields=["secrets"])


def salt_of(replicator: Replicator) -> str:
    """In hexadecimal digits, empty where no mask has needed one.  A secret (invariant 8)."""
    sealed = Replicator.objects.filter(pk=replicator.pk).values_list("secrets", flat=True).first()
    return unseal(sealed or "").get("salt", "")


def covered(replicator: Replicator, entry: SelectionEntry) -> QuerySet[ReplicatorTable]:
    """The tables whose mode the line decides, of those that have their rows: not those whose own line has one."""
    rows = ReplicatorTable.objects.filter(replicator=replicator, database=entry.database)
    if entry.table:
        return rows.filter(name=entry.table)
    own = replicator.selection.filter(database=entry.database).exclude(table="").exclude(mode="")
    return rows.exclude(name__in=own.values("table"))


def _refuse_other_modes(replicator: Replicator, entry: SelectionEntry) -> None:
    if entry.excluded or not entry.mode:
        return
    if (other := covered(replicator, entry).exclude(mode=entry.mode).first()) is not None:
        message = f"{other} is in the mode {Mode(other.mode).label}; changing its mode requires a resnapshot."
        raise ConfigurationError(message, remedy="Change the mode of the existing table.")


def mode_of(replicator: Replicator, table: TableId, modes: Mapping[tuple[str, str], str] | None = None) -> str:
    """Of a table that is new: its own line's, else its database's, else the replicator's.

    `modes`: of all lines, where they are known.
    """
    if modes is None:
        modes = modes_of(replicator, database=table.database, table__in=("", table.name))
    own, whole = ((table.database, name) for name in (table.name, ""))
    return modes.get(own) or modes.get(whole) or replicator.parsed_options.mode


def modes_of(replicator: Replicator, **lines: Any) -> dict[tuple[str, str], str]:
    """By database and table (empty: the database's own line) of these lines, as far as they say one."""
    found = replicator.selection.filter(**lines).exclude(mode="")
    return {(database, table): mode for database, table, mode in found.values_list("database", "table", "mode")}


def ensure_table(replicator: Replicator, table: TableId, target_name: TargetName | None = None) -> ReplicatorTable:
    """The table's row; one that is made now has `target_name` in the target, if given, from the beginning.

    ConfigurationError where that is another's copy.
    """
    found = ReplicatorTable.objects.filter(replicator=replicator, database=table.database, name=table.name).first()
    if found is not None:
        return found
    if target_name:
        refuse_shared(replicator, table)
    own = checked_target_name(replicator, target_name) if target_name else None
    place = own or TargetName(*target_of(replicator, table))
    if own is None:
        refuse_taken(table, place, replicator)
    row, _ = ReplicatorTable.objects.get_or_create(
        replicator=replicator,
        database=table.database,
        name=table.name,
        defaults={
            "target_namespace": place.namespace,
            "target_name": place.name,
            "target_part": place.part,
            "own_namespace": own.namespace if own else "",
            "own_name": own.name if own else "",
            "mode": mode_of(replicator, table),
        },
    )
    return row
