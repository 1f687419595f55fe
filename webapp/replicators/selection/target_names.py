"""What the copy of a table is called in the target, where somebody has chosen that (`ReplicatorTable.own_name`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.targets import kind_of, same_place


class TargetName(NamedTuple):
    """Of a copy in the target."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return ".".join(self)


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
    return target_name._asdict() if "." in target_name.name else str(target_name)


def chosen_target_name(table: ReplicatorTable) -> TargetName | None:
    """None where the source's names give it."""
    return TargetName(table.own_namespace, table.own_name) if table.own_name else None


def checked_target_name(
    replicator: Replicator, target_name: TargetName, table: ReplicatorTable | None = None
) -> TargetName:
    """Of this table, or a new one.  ConfigurationError where it is no name, or another table's."""
    kind = kind_of(replicator)
    if not kind.capabilities.renames:
        message = f"The tables of {kind.title} cannot be renamed."
        raise ConfigurationError(message, remedy="Create another replicator with another prefix.")
    target_name = TargetName(target_name.namespace.strip(), target_name.name.strip())
    for what, text in target_name._asdict().items():
        if why := kind.identifiers.refusal(text):
            raise ConfigurationError(f"The {what} in the target {why}.")
    others = ReplicatorTable.objects.all() if table is None else ReplicatorTable.objects.exclude(pk=table.pk)
    if (other := owner_of(target_name, replicator, others)) is not None:
        message = f"{target_name} is the target table of {other} (replicator {other.replicator.name})."
        raise ConfigurationError(message, remedy="Choose another name.")
    return target_name


def owner_of(
    target_name: TargetName, replicator: Replicator, others: QuerySet[ReplicatorTable]
) -> ReplicatorTable | None:
    """One of the others whose copy is called so, or is to be, in the same place as the replicator's copies."""
    found = others.filter(_called(target_name) | _chosen(target_name)).select_related("replicator__destination")
    return next((row for row in found if same_place(row.replicator, replicator)), None)


def refuse_taken(table: TableId, target_name: TargetName, replicator: Replicator) -> None:
    """ConfigurationError where a table that is new would be written to another's copy by its own names.

    Of the same replicator, only a chosen name counts: others are still to follow their tables' renames.
    """
    same = ReplicatorTable.objects.filter(_chosen(target_name), replicator=replicator).first()
    if other := same or owner_of(target_name, replicator, ReplicatorTable.objects.exclude(replicator=replicator)):
        whose = f"which the replicator {other.replicator.name} writes" if not same else f"the target table of {same}"
        message = f"{table} would be written to {target_name}, {whose}."
        raise ConfigurationError(message, remedy="Set a different target prefix for this replicator.")


def _called(target_name: TargetName) -> Q:
    return Q(target_namespace=target_name.namespace, target_name=target_name.name)


def _chosen(target_name: TargetName) -> Q:
    return Q(own_namespace=target_name.namespace, own_name=target_name.name)
