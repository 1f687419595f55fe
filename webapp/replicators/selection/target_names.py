"""Names of tables in the target: from their names in the source, or chosen by a user (`ReplicatorTable.own_name`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from replicator.model.routing import Routing
from replicator.state.journal import Place
from replicator.state.tables import TableState
from replicator.targets.base import TargetTable
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.targets import kind_of, same_place
from webapp.replicators.targets import target_name as routed_name


class TargetName(NamedTuple):
    """Of a copy in the target.  part: as `replicator.targets.base.TargetTable` has it."""

    namespace: str
    name: str
    part: str = ""

    def __str__(self) -> str:
        return str(TargetTable(*self))

    @property
    def column(self) -> str:
        """By which tables share it; empty where they do not."""
        return TargetTable(*self).tenant[0]

    def excludes(self, other: TargetName) -> bool:
        """Cannot two tables of one replicator have these names at a time?"""
        apart = self.part and other.part and self.column == other.column and self.part != other.part
        return self[:2] == other[:2] and not apart


def parsed_target_name(given: Any, where: str) -> TargetName:
    """Of a file: `lake.orders` (a namespace may have dots), or `{namespace, name}` for a name that has some.

    ConfigurationError.
    """
    if isinstance(given, str):
        namespace, _, name = given.rpartition(".")
        given = {"namespace": namespace, "name": name}
    if isinstance(given, Mapping) and set(given) == {"namespace", "name"}:
        texts = [given["namespace"], given["name"]]
        if all(isinstance(text, str) and text.strip() for text in texts):
            return TargetName(*(text.strip() for text in texts))
    raise ConfigurationError(f"{where}: target must be NAMESPACE.NAME, or have a namespace and a name.")


def written_target_name(target_name: TargetName) -> str | dict[str, str]:
    """As `parsed_target_name` reads it."""
    if "." in target_name.name:
        return {"namespace": target_name.namespace, "name": target_name.name}
    return f"{target_name.namespace}.{target_name.name}"


def chosen_target_name(table: ReplicatorTable) -> TargetName | None:
    """None where the source's names give it."""
    return TargetName(table.own_namespace, table.own_name) if table.own_name else None


def checked_target_name(
    replicator: Replicator, target_name: TargetName, table: ReplicatorTable | None = None
) -> TargetName:
    """Return the name for this table, or a new one.  ConfigurationError for an invalid name, or another table's."""
    kind = kind_of(replicator)
    if not kind.capabilities.renames:
        message = f"The tables of {kind.title} cannot be renamed."
        raise ConfigurationError(message, remedy="Create another replicator with another prefix.")
    target_name = TargetName(target_name.namespace.strip(), target_name.name.strip())
    for what, text in (("namespace", target_name.namespace), ("name", target_name.name)):
        if why := kind.identifiers.refusal(text):
            raise ConfigurationError(f"The {what} in the target {why}.")
    others = ReplicatorTable.objects.all() if table is None else ReplicatorTable.objects.exclude(pk=table.pk)
    if (other := owner_of(target_name, replicator, others)) is not None:
        message = f"{target_name} is the target table of {other} (replicator {other.replicator.name})."
        raise ConfigurationError(message, remedy="Choose another name.")
    return target_name


def refuse_shared(replicator: Replicator, table: TableId) -> None:
    """ConfigurationError for a table that shares its target table, whose name cannot be chosen."""
    place = TargetName(*target_of(replicator, table))
    if place.part:
        message = f"{table} shares the target table {TargetTable(*place).whole} by the routing rules."
        raise ConfigurationError(message, remedy="Leave its target name to the routing rules.")


def owner_of(
    target_name: TargetName, replicator: Replicator, others: QuerySet[ReplicatorTable]
) -> ReplicatorTable | None:
    """One of the others whose copy is called so, or is to be, in the same place as the replicator's copies."""
    found = others.filter(_called(target_name) | _chosen(target_name)).select_related("replicator__destination")
    return next((row for row in found if same_place(row.replicator, replicator)), None)


def refuse_taken(table: TableId, target_name: TargetName, replicator: Replicator) -> None:
    """ConfigurationError where a table that is new would be written to another's copy by its own names.

    Of the same replicator, only a name that was chosen, or that the routing rules give, counts: others are still to
    follow their tables' renames.
    """
    same = ReplicatorTable.objects.filter(_chosen(target_name), replicator=replicator).first()
    same = same or _routed_to(target_name, replicator, table)
    if other := same or owner_of(target_name, replicator, ReplicatorTable.objects.exclude(replicator=replicator)):
        whose = f"which the replicator {other.replicator.name} writes" if not same else f"the target table of {same}"
        message = f"{table} would be written to {target_name}, {whose}."
        raise ConfigurationError(message, remedy="Change the routing rules or the target prefix of this replicator.")


def _routed_to(target_name: TargetName, replicator: Replicator, but: TableId) -> ReplicatorTable | None:
    """Another table that the routing rules lead to the same place; without rules, no two have one."""
    if not Routing.of(replicator.target).rules:
        return None
    rows = ReplicatorTable.objects.filter(replicator=replicator, own_name="").exclude(state=TableState.DROPPED.value)
    found = (row for row in rows.select_related("replicator__destination") if row.table_id != but)
    return next((row for row in found if target_name.excludes(TargetName(*target_name_of(row)))), None)


def _called(target_name: TargetName) -> Q:
    return Q(target_namespace=target_name.namespace, target_name=target_name.name)


def _chosen(target_name: TargetName) -> Q:
    return Q(own_namespace=target_name.namespace, own_name=target_name.name)


def target_of(replicator: Replicator, table: TableId) -> Place:
    """Namespace, name and part in the target: by the routing rules, else the database's name with the replicator's
    prefix, the table's own name.
    """
    return routed_name(replicator, table)


def target_name_of(row: ReplicatorTable) -> Place:
    """The target that was chosen for it, or that the row's present name asks for."""
    return (row.own_namespace, row.own_name, "") if row.own_name else target_name_as(row, row.table_id)


def target_name_as(row: ReplicatorTable, table: TableId) -> Place:
    """The target that the row asks for while its table is called so in the source, where none was chosen."""
    if has_free_name(row):
        return f"{row.replicator.uid}.{table.database}", table.name, ""
    return target_of(row.replicator, table)


def has_free_name(row: ReplicatorTable) -> bool:
    """Was it made under a name that no other table can have (webapp/worker/store/table_discovery.py)?"""
    return row.target_namespace.startswith(f"{row.replicator.uid}.")


def keep_target_names(replicator: Replicator, settings: Mapping[str, Any]) -> None:
    """Before the settings of its target become these: tables that they would give another name keep the one that they
    have, as if it was chosen.

    A table that could not be made under its name, and has none yet, gets the one that the settings give.

    ConfigurationError where a table would come to share its target table, or do so no more or elsewhere.
    """
    kind = kind_of(replicator)
    rows = ReplicatorTable.objects.filter(replicator=replicator).exclude(state=TableState.DROPPED.value)
    for row in rows.select_related("replicator"):
        places = {target_of(replicator, row.table_id), kind.table_name(settings, row.table_id)}
        if len(places) > 1 and any(place[2] for place in places) and not has_free_name(row):
            message = f"{row} would share another target table than now."
            remedy = "Leave its routing rule as it is, or remove the table from the replicator first."
            raise ConfigurationError(message, remedy=remedy)
    for row in ReplicatorTable.objects.filter(replicator=replicator, own_name="").select_for_update(no_key=True):
        after = TargetName(*kind.table_name(settings, row.table_id))
        before = TargetName(*target_of(replicator, row.table_id))
        if before == after:
            continue
        if not has_free_name(row):
            row.own_namespace, row.own_name = before.namespace, before.name
        elif not row.made_load and _is_free(row.table_id, after, replicator):
            row.target_namespace, row.target_name, row.target_part = after
        row.save(update_fields=["own_namespace", "own_name", "target_namespace", "target_name", "target_part"])


def _is_free(table: TableId, target_name: TargetName, replicator: Replicator) -> bool:
    try:
        refuse_taken(table, target_name, replicator)
    except ConfigurationError:
        return False
    return True
