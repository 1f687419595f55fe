"""Key ranges in T-SQL: the literals, the comparisons, the order.

A key value travels as a literal of the column's own type and collation, so the server compares it as ORDER BY orders
the column: uniqueidentifier by its last bytes first, texts by the column's collation.
"""

from __future__ import annotations

from collections.abc import Sequence

from replicator.sources.shared.key_ranges import KeyRanges
from replicator.sources.sqlserver.catalog.table_description import TableDescription
from replicator.sources.sqlserver.dialect import TSQL, literal, quoted
from replicator.sources.sqlserver.types import BYTES, SINGLE_BYTE, TEMPORAL, ColumnDefinition

_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_TEXTS = {
    "float": "CONVERT(varchar(40), {}, 3)",  # 17 digits
    "real": "CONVERT(varchar(40), CAST({} AS float), 3)",
    "money": "CONVERT(varchar(40), {}, 2)",
    "smallmoney": "CONVERT(varchar(40), {}, 2)",
    "nchar": "{}",
    "nvarchar": "{}",
    "char": "CAST({} AS nvarchar(max))",
    "varchar": "CAST({} AS nvarchar(max))",
    "hierarchyid": "CAST({} AS nvarchar(4000))",
    **dict.fromkeys(TEMPORAL, "CONVERT(varchar(40), {}, 121)"),
    **dict.fromkeys(BYTES, "CONVERT(varchar(max), CAST({} AS varbinary(max)), 1)"),
}
_COARSE = frozenset({"datetime", "smalldatetime"})  # a text with more digits is not a literal of these


def key_expression(definition: ColumnDefinition) -> str:
    """What to SELECT to get the text that `key_literal` takes."""
    return _TEXTS.get(definition.base, "CONVERT(varchar(60), {})").format(quoted(definition.name))


def key_literal(definition: ColumnDefinition, text: str) -> str:
    """The SQL literal for a key value."""
    base, written = definition.base, literal(text)
    if base in _WHOLE:
        return str(int(text))
    if base in BYTES:
        return "0x" + bytes.fromhex(text.removeprefix("0x")).hex()
    if base in SINGLE_BYTE:
        written = f"{written} COLLATE {definition.collation}"
    if base in TEMPORAL - _COARSE:
        return f"CONVERT({definition.text_of_base}, {written}, 121)"
    if base in _COARSE:
        written = f"CONVERT(datetime2(7), {written}, 121)"
    return written if base in {"nchar", "nvarchar"} else f"CAST({written} AS {definition.text_of_base})"


def given_literal(definition: ColumnDefinition, text: str) -> str:
    """The SQL literal for a key value as people write it (`replicator.snapshot.keys`)."""
    return key_literal(definition, {"true": "1", "false": "0"}.get(text, text) if definition.base == "bit" else text)


def select_key(description: TableDescription) -> str:
    """The SELECT list of a key, without aliases: ORDER BY would take one for the column of that name."""
    return ", ".join(key_expression(description.definition(name)) for name in description.schema.key)


def read_key(description: TableDescription, row: Sequence[object]) -> tuple[str, ...]:
    """One row of `select_key` as literals."""
    return tuple(
        key_literal(description.definition(name), str(value))
        for name, value in zip(description.schema.key, row, strict=True)
    )


class SqlServerKeyRanges(KeyRanges):
    """Of one table."""

    dialect = TSQL
    everything = "1 = 1"  # T-SQL has no TRUE

    def __init__(self, description: TableDescription) -> None:
        super().__init__(description.schema)
        self._definitions = [description.definition(name) for name in description.schema.key]

    def column(self, place: int) -> str:
        """Under its name: literals have the column's type and collation."""
        return quoted(self._definitions[place].name)

    def ordered(self, name: str) -> str:
        """The same."""
        return quoted(name)

    def given(self, place: int, text: str) -> str:
        """See `given_literal`."""
        return given_literal(self._definitions[place], text)
