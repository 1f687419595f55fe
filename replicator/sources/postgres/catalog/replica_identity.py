"""How the log identifies the rows of a table: its replica identity.

Source: PostgreSQL manual, ALTER TABLE … REPLICA IDENTITY; src/backend/utils/cache/relcache.c, RelationGetIndexList.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replicator.errors import TableError
from replicator.model.identifiers import TableId
from replicator.sources.postgres.catalog.attributes import Attribute, ReplicaIdentity
from replicator.sources.postgres.connection import quoted

Row = Mapping[str, Any]


class NoIdentity(TableError):
    """The log would not say which row an UPDATE or DELETE changed."""


@dataclass(frozen=True, slots=True)
class Key:
    """Columns in the index's order, and the index; both empty where rows are compared as a whole."""

    columns: tuple[str, ...] = ()
    index: str = ""
    primary: bool = False


def choose_key(row: Row, attributes: Sequence[Attribute], kept: Collection[str]) -> Key:
    """The key of a table; `kept` are the names of the columns that are replicated.

    `row` is one of `describe_sql.RELATIONS`.  NoIdentity where the log would not say which row an UPDATE or DELETE
    changed: Postgres itself refuses these statements once such a table is published.
    """
    table = TableId(row["schema"], row["name"])
    identity = ReplicaIdentity(row["identity"])
    names = {one.number: one.name for one in attributes}
    indexes = [index for index in row["indexes"] or () if index["immediate"]]
    if identity is ReplicaIdentity.FULL:
        _check_leaves(row, table, None)
        return _best(indexes, names, attributes, kept)
    chosen = [index for index in indexes if index["primary" if identity is ReplicaIdentity.DEFAULT else "chosen"]]
    if identity is ReplicaIdentity.NOTHING or not chosen:
        raise _without(row, table, identity)
    key = _key(chosen[0], names)
    missing = sorted(set(key.columns) - set(kept))
    if missing:
        message = (
            f"{table} is identified by {', '.join(missing)}, which the log does not contain or the replicator excludes."
        )
        raise TableError(message, table=str(table), remedy=_full(row))
    _check_leaves(row, table, key)
    return key


def _best(
    indexes: Sequence[Row], names: Mapping[int, str], attributes: Sequence[Attribute], kept: Collection[str]
) -> Key:
    """Any index will do where whole old rows are in the log: the primary key, then few columns, then by name."""
    fit = {one.name for one in attributes if not one.nullable}.intersection(kept)
    keys = [key for key in (_key(index, names) for index in indexes) if fit.issuperset(key.columns)]
    return min(keys, key=lambda key: (not key.primary, len(key.columns), key.index), default=Key())


def _key(index: Row, names: Mapping[int, str]) -> Key:
    return Key(tuple(names.get(number, "") for number in index["columns"]), index["name"], index["primary"])


def _check_leaves(row: Row, table: TableId, key: Key | None) -> None:
    """The log has of an old row what the partition's own replica identity says, not the partitioned table's."""
    for leaf in row["leaves"] or ():
        identity = ReplicaIdentity(leaf["identity"])
        if identity is ReplicaIdentity.FULL or (key is not None and sorted(key.columns) == (leaf["columns"] or [])):
            continue
        whole = "a whole old row" if key is None else f"an old row's {', '.join(key.columns)}"
        message = (
            f"{leaf['number']} partitions of {table}, {leaf['example']} among them, have another replica identity than "
            f"the table: the log would not have {whole}."
        )
        remedy = f"ALTER TABLE {leaf['example']} REPLICA IDENTITY FULL; and so for each such partition."
        raise NoIdentity(message, table=str(table), remedy=remedy)


def _without(row: Row, table: TableId, identity: ReplicaIdentity) -> NoIdentity:
    reasons = {
        ReplicaIdentity.DEFAULT: "has no primary key that can identify rows",
        ReplicaIdentity.INDEX: "has lost the index that identified its rows",
        ReplicaIdentity.NOTHING: "has the replica identity NOTHING",
    }
    message = (
        f"{table} {reasons[identity]}: the log would not say which row an UPDATE or DELETE changed, and Postgres"
        " refuses both once such a table is published."
    )
    return NoIdentity(message, table=str(table), remedy=_full(row))


def _full(row: Row) -> str:
    leaves = row["leaves"] or ()
    more = " and the same for each of its partitions" if leaves else ""
    return f"ALTER TABLE {quoted(row['schema'])}.{quoted(row['name'])} REPLICA IDENTITY FULL;{more}"
