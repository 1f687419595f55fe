"""What the copy of a table is called in the target, where somebody has chosen that (`ReplicatorTable.own_name`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from replicator.errors import ConfigurationError
from replicator.model.identifiers import TableId
from webapp.replicators.models import Replicator, ReplicatorTable
from webapp.replicators.targets import kind_of, same_place


class Home(NamedTuple):
    """Of a copy in the target."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return ".".join(self)


def parsed_home(given: Any, where: str) -> Home:
    """Of a file: `lake.orders` (a namespace may have dots), or `{namespace, name}` for a name that has some.

    ConfigurationError.
    """
    if isinstance(given, str):
        namespace, _, name = given.rpartition(".")
        given = {"namespace": namespace, "name": name}
    if isinstance(given, Mapping) and set(given) == {"namespace", "name"}:
        texts = [given["namespace"], given["name"]]
        if all(isinstance(text, str) and text.strip() for text in texts):
            return Home(*(text.strip() for text in texts))
    raise ConfigurationError(f"{where}: target must be NAMESPACE.NAME, or have a namespace and a name.")


def written_home(home: Home) -> str | dict[str, str]:
    """As `parsed_home` reads it."""
    return home._asdict() if "." in home.name else str(home)


def chosen_home(table: ReplicatorTable) -> Home | None:
    """None where the source's names give it."""
    return Home(table.own_namespace, table.own_name) if table.own_name else None


def checked_home(replicator: Replicator, home: Home, table: ReplicatorTable | None = None) -> Home:
    """Of this table, or a new one.  ConfigurationError where it is no name, or another table's."""
    kind = kind_of(replicator)
    if not kind.capabilities.renames:
        message = f"The tables of {kind.title} cannot be renamed."
        raise ConfigurationError(message, remedy="Create another replicator with another prefix.")
    home = Home(home.namespace.strip(), home.name.strip())
    for what, text in home._asdict().items():
        if why := kind.identifiers.refusal(text):
            raise ConfigurationError(f"The {what} in the target {why}.")
    others = ReplicatorTable.objects.all() if table is None else ReplicatorTable.objects.exclude(pk=table.pk)
    if (other := owner_of(home, replicator, others)) is not None:
        message = f"{home} is the target table of {other} (replicator {other.replicator.name})."
        raise ConfigurationError(message, remedy="Choose another name.")
    return home


def owner_of(home: Home, replicator: Replicator, others: QuerySet[ReplicatorTable]) -> ReplicatorTable | None:
    """One of the others whose copy is called so, or is to be, in the same place as the replicator's copies."""
    found = others.filter(_called(home) | _chosen(home)).select_related("replicator__destination")
    return next((row for row in found if same_place(row.replicator, replicator)), None)


def refuse_taken(table: TableId, home: Home, replicator: Replicator) -> None:
    """ConfigurationError where a table that is new would be written to another's copy by its own names.

    Of the same replicator, only a chosen name counts: others are still to follow their tables' renames.
    """
    same = ReplicatorTable.objects.filter(_chosen(home), replicator=replicator).first()
    if other := same or owner_of(home, replicator, ReplicatorTable.objects.exclude(replicator=replicator)):
        whose = f"which the replicator {other.replicator.name} writes" if not same else f"the target table of {same}"
        message = f"{table} would be written to {home}, {whose}."
        raise ConfigurationError(message, remedy="Set a different target prefix for this replicator.")


def _called(home: Home) -> Q:
    return Q(target_namespace=home.namespace, target_name=home.name)


def _chosen(home: Home) -> Q:
    return Q(own_namespace=home.namespace, own_name=home.name)
