"""Key ranges in the server's own SQL: the literals, the comparisons, the order.

A key value travels as the text of an SQL literal of the column's type.  The server compares it exactly as ORDER BY
orders the column: under the column's collation (a literal has none), NaN after all numbers, enums in their declared
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator.sources.postgres.catalog.attributes import Attribute, TableDescription
from replicator.sources.postgres.connection import literal, quoted
from replicator.sources.postgres.dialect import POSTGRES
from replicator.sources.postgres.types import CATALOG
from replicator.sources.shared.key_ranges import KeyRanges

# Is the key's index a B-tree, whole, in the key's own order, with the order that ORDER BY takes?
_ORDERED = """
SELECT m.amname = 'btree' AND i.indisvalid AND NOT EXISTS (
  SELECT FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) p(n)
  JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[p.n]
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p.n]
  WHERE NOT o.opcdefault OR i.indoption[p.n] <> 0 OR a.attcollation IS DISTINCT FROM i.indcollation[p.n]
), ARRAY(
  SELECT a.attname::text FROM pg_catalog.generate_series(0, i.indnkeyatts - 1) p(n)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[p.n] ORDER BY p.n)
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = c.relam
WHERE i.indrelid = {oid} AND c.relname = {index}
"""


def order_question(description: TableDescription) -> str:
    """Return a query for (does ORDER BY follow the index?, the index's columns); no row if the index does not exist."""
    return _ORDERED.format(oid=int(description.oid), index=literal(description.key_index))


def text_of(attribute: Attribute) -> str:
    """Return an expression for the text that the column's type prints, regardless of casts; null stays null.

    A cast may print another text: bpchar::text has no padding, inet::text has a netmask.  A composite of nulls is not
    null.
    """
    name = quoted(attribute.name)
    return f"CASE WHEN {name} IS NOT DISTINCT FROM NULL THEN NULL ELSE pg_catalog.concat({name}) END"


def select_key(description: TableDescription) -> str:
    """The SELECT list of a key."""
    return ", ".join(f"pg_catalog.concat({quoted(name)})" for name in description.schema.key)


def read_key(description: TableDescription, row: Sequence[str]) -> tuple[str, ...]:
    """One row of `select_key` as literals."""
    return tuple(
        f"{literal(text)}::{_type_name(description.attribute(name))}"
        for name, text in zip(description.schema.key, row, strict=True)
    )


def given_literal(attribute: Attribute, text: str) -> str:
    """The SQL literal for a key value as people write it (`replicator.snapshot.keys`)."""
    plain = attribute.plain[0]
    written = f"\\x{text}" if (plain.schema, plain.name) == (CATALOG, "bytea") else text
    return f"{literal(written)}::{_type_name(attribute)}"


class PostgresKeyRanges(KeyRanges):
    """A comparison of rows, which B-trees know; where operators come from several schemas, what it means."""

    dialect = POSTGRES

    def __init__(self, description: TableDescription) -> None:
        super().__init__(description.schema)
        self._attributes = [description.attribute(name) for name in description.schema.key]

    def column(self, place: int) -> str:
        """As its domain's base type."""
        return _column(self._attributes[place])

    def ordered(self, name: str) -> str:
        """As it is."""
        return quoted(name)

    def given(self, place: int, text: str) -> str:
        """See `given_literal`."""
        return given_literal(self._attributes[place], text)

    def compared(self, place: int, sign: str, value: str) -> str:
        """Compare by the type's own operator, regardless of the search path."""
        return f"{self.column(place)} OPERATOR({quoted(_operators(self._attributes[place]))}.{sign}) {value}"

    def row_compared(self, sign: str, values: Sequence[str]) -> str | None:
        """Where all operators are the server's own."""
        if any(_operators(one) != CATALOG for one in self._attributes):
            return None
        return f"({', '.join(map(_column, self._attributes))}) {sign} ({', '.join(values)})"

    def one_of(self, values: Sequence[str]) -> str | None:
        """Where the operator is the server's own."""
        if _operators(self._attributes[0]) != CATALOG:
            return None
        return f"{self.column(0)} = ANY (ARRAY[{', '.join(values)}])"


def _column(attribute: Attribute) -> str:
    """As its domain's base type, which an index on it serves as well: operators of enums, arrays and ranges know no
    domains.
    """
    name = quoted(attribute.name)
    return name if attribute.type.base is None else f"{name}::{_type_name(attribute)}"


def _operators(attribute: Attribute) -> str:
    """The schema of the type's own comparisons: an extension's stand beside its type; enums, ranges and rows have the
    server's.
    """
    pg_type = attribute.plain[0]
    return pg_type.schema if pg_type.kind == "b" and pg_type.element is None else CATALOG


def _type_name(attribute: Attribute) -> str:
    """Without a modifier, so that no value is cut; that of the type behind a domain, whose checks need not hold for old
    rows.
    """
    pg_type = attribute.plain[0]
    return f"{quoted(pg_type.schema)}.{quoted(pg_type.name)}"
