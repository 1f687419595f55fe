"""TABLE_MAPs completed: what the log of some servers leaves open, and the catalog tells.

Early versions of MySQL 8.0 do not write the character set of ENUM and SET columns, and versions of which nothing is
known here may write a sign bit for YEAR or none.  The catalog is that of now, the TABLE_MAP may be older: what does not
fit it is refused (invariant 7).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from replicator.errors import UnsupportedCharset, UnsupportedType
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.mysql.catalog.table_description import TableDescription
from replicator.sources.mysql.charsets import collation_of, decoder
from replicator.sources.mysql.ddl.alter_table import definition_of_text
from replicator.sources.mysql.names import lowered
from replicator.sources.mysql.rows.table_map import LogColumn, TableMap
from replicator.sources.mysql.types import CHARSETS, LABELS, ColumnDefinition

Present = Callable[[], TableDescription | None]

_REMEDY = "Resnapshot the table. The missing information is then read from the catalog."
_PLAIN = re.compile(
    rb"[A-Za-z0-9 ,.:;_+*/()<>=!%&'\"-]*"
)  # the same in every character set whose characters have one byte
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32"})
_FIRST = ("utf8mb4", "latin1")


def complete(found: TableMap, left_out: Collection[str], known: TableSchema | None, present: Present) -> TableMap:
    """`left_out`: in lower case; `known`: the schema so far; `present` asks the catalog.

    UnsupportedType, UnsupportedCharset where neither of them tells.
    """
    if found.other:
        found = _with_signs(found, left_out, known, present)
    columns = [
        replace(column, charset=_charset(column, found.table, known, present))
        if column.labels and column.charset is None and lowered(column.name) not in left_out
        else column
        for column in found.columns
    ]
    return replace(found, columns=tuple(columns))


def _with_signs(found: TableMap, left_out: Collection[str], known: TableSchema | None, present: Present) -> TableMap:
    """Of two descriptions the one whose signs the catalog has; what was known before is not asked where the catalog has
    the table.
    """
    readings = [found.columns, found.other]
    for definitions in _cataloged(known, present):
        fitting = [columns for columns in readings if _fits(columns, definitions, left_out)]
        if len(fitting) == 1:
            return replace(found, columns=fitting[0], other=())
    message = (
        f"The log does not determine which columns of {found.table} are UNSIGNED: the server may or may not count YEAR"
        " among the signed columns."
    )
    raise UnsupportedType(message, remedy=_REMEDY, table=str(found.table))


def _cataloged(known: TableSchema | None, present: Present) -> Iterable[dict[str, ColumnDefinition]]:
    """What the catalog says, now and before, by column."""
    if now := present():
        yield {definition.name: definition for definition in now.definitions}
    elif known:
        yield _definitions(known)


def _definitions(schema: TableSchema) -> dict[str, ColumnDefinition]:
    return {column.name: definition_of_text(column.name, column.source_type) for column in schema.columns}


def _fits(columns: Iterable[LogColumn], definitions: dict[str, ColumnDefinition], left_out: Collection[str]) -> bool:
    signed = [c for c in columns if c.is_integer and lowered(c.name) not in left_out]
    return all(c.name in definitions and definitions[c.name].unsigned == c.unsigned for c in signed)


def _charset(log: LogColumn, table: TableId, known: TableSchema | None, present: Present) -> int:
    """A collation of the character set in which the labels are those that the catalog has, or had."""
    before = _labels(_definitions(known).get(log.name) if known else None)
    if before and (name := next((name for name in (*_FIRST, *CHARSETS) if _decoded(log, name) == before), "")):
        return collation_of(name)
    if all(map(_PLAIN.fullmatch, log.labels)) and any(len(label) % 2 for label in log.labels):
        return collation_of(_FIRST[0])  # not of two or four bytes a character, and all others read them alike
    described = present()
    now = described and {one.name: one for one in described.definitions}.get(log.name)
    if now and (after := _labels(now)):
        name = now.charset or ""
        if _certain(log, name, {*before, *after}):
            return collation_of(name)
        if _decoded(log, name) is None:
            message = (
                f"The labels of column {log.name} of {table} in the log are not valid in {name}, the column's character"
                " set: the server keeps the labels' old bytes in ALTER TABLE … CONVERT TO CHARACTER SET."
            )
            remedy = (
                f"List the labels again (ALTER TABLE … MODIFY {log.name} …), then resnapshot the table; or exclude the"
                " column."
            )
            raise UnsupportedCharset(message, remedy=remedy, table=str(table))
    message = (
        f"The log does not say in which character set the labels of column {log.name} of {table} are, and the catalog"
        " has no such column with these labels."
    )
    raise UnsupportedCharset(message, remedy=_REMEDY, table=str(table))


def _labels(definition: ColumnDefinition | None) -> tuple[str, ...]:
    return definition.labels if definition and definition.data_type in LABELS else ()


def _certain(log: LogColumn, charset: str, definitions: Collection[str]) -> bool:
    """True where `charset` makes every label one that the catalog has, or one that all such character sets spell
    alike.
    """
    decoded = _decoded(log, charset)
    return decoded is not None and all(
        text in definitions or (charset not in _WIDE and _PLAIN.fullmatch(label))
        for label, text in zip(log.labels, decoded, strict=True)
    )


def _decoded(log: LogColumn, charset: str) -> tuple[str, ...] | None:
    try:
        decode = decoder(charset)
        return tuple(decode(label) for label in log.labels)
    except (UnsupportedCharset, UnicodeDecodeError):
        return None
