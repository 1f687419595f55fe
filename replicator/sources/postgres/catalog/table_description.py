"""A table from the catalog's rows: what of it is replicated, how its rows are identified, or why it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from replicator.errors import TableDisappeared, TableError, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import BEFORE, RESERVED, TableSchema
from replicator.model.table_set import TableSet
from replicator.sources.postgres.catalog.attributes import (
    Attribute,
    ColumnFingerprint,
    ReplicaIdentity,
    TableDescription,
)
from replicator.sources.postgres.catalog.replica_identity import choose_key
from replicator.sources.postgres.catalog.type_resolution import Types
from replicator.sources.postgres.connection import quoted
from replicator.sources.postgres.types import column_of
from replicator.sources.shared.descriptions import check_left_out

Row = Mapping[str, Any]
TABLES = frozenset({"r", "p", "f"})  # relkinds that are tables, unlike those of views, sequences and the like
_TAKE_OUT = "Remove the table from the replicator."


def table_of(row: Row) -> TableId:
    """The name in a row of `describe_sql.RELATIONS`."""
    return TableId(row["schema"], row["name"])


def attributes_of(row: Row, types: Types) -> tuple[Attribute, ...]:
    """All columns that the relation has now, in its order."""
    return tuple(
        Attribute(
            name=column["name"],
            number=column["number"],
            type=types.get(column["type"]),
            typmod=column["typmod"],
            type_text=column["type_text"],
            nullable=not column["not_null"],
            generated=column["generated"],
            has_default=column["default"],
            has_missing=column["missing"],
            comment=column.get("comment") or "",  # an event trigger of an earlier version says none
        )
        for column in row["columns"] or ()
    )


def description(
    row: Row,
    types: Types,
    *,
    zero_dates: str = "null",
    left_out: TableSet | None = None,
    generated: bool = False,
) -> TableDescription:
    """The table of a row of `describe_sql.RELATIONS`.

    `left_out`: what the replicator takes; its excluded columns are not described, and a partition of a table that it
    takes is refused.  `generated`: the log has stored generated columns (from 18, by an option of the publication).
    Raises TableError.
    """
    table = table_of(row)
    selected = left_out or TableSet()
    refuse(row, selected)
    every = attributes_of(row, types)
    check_left_out(table, selected.columns_left_out(table), [one.name for one in every])
    attributes = tuple(
        one for one in every if one.name not in selected.columns_left_out(table) and logged(one, generated=generated)
    )
    _check_names(table, attributes)
    key = choose_key(row, every, {one.name for one in attributes})
    columns = tuple(column_of(one, table, zero_dates=zero_dates, key=one.name in key.columns) for one in attributes)
    identity = ReplicaIdentity(row["identity"])
    schema = TableSchema(
        table,
        columns,
        key.columns,
        partial=bool(key.columns) and identity is not ReplicaIdentity.FULL,
        identity=str(ColumnFingerprint(int(row["oid"]), *row["prints"])),
        comment=row.get("comment") or "",
    )
    return TableDescription(schema, attributes, row["oid"], identity, row["kind"], key.index)


def logged(attribute: Attribute, *, generated: bool) -> bool:
    """Does the log have the column?  `generated`: stored generated columns too."""
    return not attribute.generated or (generated and attribute.generated == "s")


class PartitionOfSelected(TableDisappeared):
    """A partition whose rows come as those of a selected partitioned table, or that was left out with that table.

    An observation of the catalog also finds tables that have become such a partition.
    """


def refuse(row: Row, selected: TableSet) -> None:
    """TableError for a table whose changes the log does not have, or has under another name."""
    table = table_of(row)
    name = f"{quoted(table.database)}.{quoted(table.name)}"
    if row["kind"] == "f":
        raise _refused(table, "is a foreign table; its rows and their log are stored elsewhere.", _TAKE_OUT)
    if row["persistence"] == "u":
        raise _refused(table, "is unlogged; its changes are not in the log.", f"ALTER TABLE {name} SET LOGGED;")
    if row["persistence"] == "t":
        raise _refused(table, "is temporary; its changes are not in the log.", _TAKE_OUT)
    if row["inherits"]:
        why = (
            "is part of an inheritance tree: a SELECT of a parent gives the children's rows, the log has them as the"
            " children's."
        )
        raise _refused(table, why, "Remove the table from the replicator, or make the tree a partitioned table.")
    parents = [TableId(*pair) for pair in row["parents"] or ()]
    whole = [parent for parent in parents if parent in selected]
    if (
        table in selected and table not in selected.tables
    ):  # who takes a schema, but not a table, takes no partition of it
        whole = whole or [parent for parent in parents if parent.database == table.database]
    if whole:
        why = f"is a partition of {whole[-1]}, which is replicated as one table."
        remedy = "Remove the partition from the replicator. Its rows are replicated with the table."
        raise PartitionOfSelected(f"{table} {why}", table=str(table), remedy=remedy)
    for leaf in row["leaves"] or ():
        if leaf["kind"] != "r" or leaf["persistence"] != "p":
            kind = "a foreign table" if leaf["kind"] == "f" else "unlogged"
            why = f"has the partition {leaf['example']}, which is {kind}: its changes are not in the log."
            raise _refused(table, why, "Detach that partition, or select the other partitions as separate tables.")


def _refused(table: TableId, why: str, remedy: str) -> TableError:
    return TableError(f"{table} {why}", table=str(table), remedy=remedy)


def _check_names(table: TableId, attributes: tuple[Attribute, ...]) -> None:
    lowered = Counter(one.name.lower() for one in attributes)
    for one in attributes:
        name = one.name.lower()
        if name in RESERVED or name.startswith(BEFORE):
            message = f"Column {one.name} of {table} has a name that is reserved by Tidemark."
            raise UnsupportedType(message, table=str(table), column=one.name)
        if lowered[name] > 1:
            message = (
                f"{table} has two columns {one.name} that differ only in case, which the target does not distinguish."
            )
            raise UnsupportedType(message, table=str(table), column=one.name)
    if not attributes:
        raise _refused(table, "has no columns that can be replicated.", _TAKE_OUT)


def identity_note(row: Row) -> tuple[str, ...]:
    """What the table's replica identity means for its changes."""
    identity = ReplicaIdentity(row["identity"])
    if identity is ReplicaIdentity.FULL:
        return ("Replica identity FULL: the log has full before images.",)
    word = "the primary key" if identity is ReplicaIdentity.DEFAULT else "an index"
    note = (
        f"Replica identity is {word}: the log has only the key of an old row, and updates omit large values that "
        "did not change (they are taken from the target). For full before images: "
        f"ALTER TABLE {quoted(row['schema'])}.{quoted(row['name'])} REPLICA IDENTITY FULL;"
    )
    return (note,)
