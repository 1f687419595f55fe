"""Table schemas as Tidemark keeps them, and the Arrow schemas that follow from them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from replicator.errors import ConfigurationError
from replicator.model.computed import Computed
from replicator.model.identifiers import TableId
from replicator.model.masks import Masked
from replicator.model.types import DataType

BEFORE = "_before_"
SEQUENCE = "_sequence_num"
OPERATION = "_operation"
COMMIT_TS = "_commit_ts"
TXN_ID = "_txn_id"
OFFSET = "_offset"
# in changes of a partial schema: places of the columns that an UPDATE left out because they kept their value
UNCHANGED = "_unchanged"
REPLACED = "_zero_dates"  # in raw chunks: how many of a row's values could not be kept, and became null

# The columns that stand before the row columns in every change batch and segment (the CDAP staging contract).
CHANGE_FIELDS = (
    pa.field(SEQUENCE, pa.int64(), nullable=False),
    pa.field(OPERATION, pa.string(), nullable=False),
    pa.field(COMMIT_TS, pa.timestamp("us", tz="UTC"), nullable=True),
    pa.field(TXN_ID, pa.string(), nullable=True),
    pa.field(OFFSET, pa.string(), nullable=True),
)
UNCHANGED_FIELD = pa.field(UNCHANGED, pa.list_(pa.int32()), nullable=True)
_STORED = frozenset({"catalog", "database", "table", "columns", "key", "partial", "identity", "comment"})
_STORED_COLUMN = frozenset(
    {"name", "type", "nullable", "source_type", "warning", "number", "masked", "comment", "computed"}
)
RESERVED = frozenset(field.name for field in CHANGE_FIELDS) | {"_batch_id", REPLACED, UNCHANGED}


@dataclass(frozen=True, slots=True)
class Column:
    """`source_type` is the source's own text for the type (`int(10) unsigned`); `warning` says what is not full.

    `computed`: what it is made of where the source's table does not have it; such columns stand behind all others.
    `number` tells a renamed column from a dropped and added one where the source numbers its columns (Postgres), else
    0; schemas that differ in it only are equal.

    `comment`: the source's; a comment that changes makes no schema another one.
    """

    name: str
    type: DataType
    nullable: bool
    source_type: str
    warning: str = ""
    number: int = field(default=0, compare=False)
    masked: Masked | None = None
    comment: str = field(default="", compare=False)
    computed: Computed | None = None


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Columns in source order.  `key` is empty for a table without one; its columns are never null.

    `partial`: an UPDATE in the log may leave out values that it did not change (Postgres TOAST); such a table has a
    key. `identity` tells the table from another that had its name before, and its storage from a rewritten one, in the
    source's own words, the table itself before the first slash; empty where the source has none.  Schemas that differ
    in it only are equal.  `comment`: as a column's.
    """

    table: TableId
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    partial: bool = False
    identity: str = field(default="", compare=False)
    comment: str = field(default="", compare=False)

    def column(self, name: str) -> Column:
        """KeyError for an unknown name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def without(self, names: Collection[str]) -> TableSchema:
        """Less these columns; without its key where that has one of them."""
        if not any(column.name in names for column in self.columns):
            return self
        columns = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=columns, key=() if any(name in names for name in self.key) else self.key)

    def is_another(self, other: TableSchema) -> bool:
        """Is this another table than `other`, of the same name or not?  False where the source does not tell."""
        ours, theirs = (one.identity.partition("/")[0] for one in (self, other))
        return bool(ours and theirs) and ours != theirs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def same_as(self, other: TableSchema) -> bool:
        """Equal, and of the same identity and column numbers: what a source compares to find what changed meanwhile."""
        ours, theirs = (one.without_comments().to_dict() for one in (self, other))
        return self == other and ours == theirs

    def without_comments(self) -> TableSchema:
        columns = tuple(replace(column, comment="") for column in self.columns)
        return replace(self, columns=columns, comment="")

    @property
    def row_arrow(self) -> pa.Schema:
        """Arrow schema of bare rows: a raw chunk's file."""
        return pa.schema([pa.field(c.name, c.type.arrow) for c in self.columns])

    @property
    def change_arrow(self) -> pa.Schema:
        """Arrow schema of change batches and segments: change columns, row columns, `_before_` columns; `_unchanged`
        where partial.
        """
        before = [pa.field(BEFORE + c.name, c.type.arrow) for c in self.columns]
        return pa.schema([*CHANGE_FIELDS, *self.row_arrow, *before, *[UNCHANGED_FIELD] * self.partial])

    def to_dict(self) -> dict[str, Any]:
        """JSON form, stored in the journal."""
        columns = [
            {"name": c.name, "type": str(c.type), "nullable": c.nullable, "source_type": c.source_type}
            | ({"warning": c.warning} if c.warning else {})
            | ({"number": c.number} if c.number else {})
            | ({"masked": c.masked.to_dict()} if c.masked else {})
            | ({"comment": c.comment} if c.comment else {})
            | ({"computed": c.computed.to_dict()} if c.computed else {})
            for c in self.columns
        ]
        more = ({"partial": True} if self.partial else {}) | ({"identity": self.identity} if self.identity else {})
        more |= {"comment": self.comment} if self.comment else {}
        named = {"database": self.table.database, "table": self.table.name}
        named |= {"catalog": self.table.catalog} if self.table.catalog else {}
        return named | {"columns": columns, "key": list(self.key)} | more

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TableSchema:
        """Inverse of `to_dict`; what is left out is empty.  ConfigurationError for all else.

        A field or type that is unknown here is a later version's: rows must not be read without what it says.
        """
        try:
            columns = tuple(
                Column(
                    c["name"],
                    DataType.parse(c["type"]),
                    c["nullable"],
                    c["source_type"],
                    c.get("warning", ""),
                    int(c.get("number", 0)),
                    Masked.from_dict(c["masked"]) if "masked" in c else None,
                    str(c.get("comment", "")),
                    Computed.from_dict(c["computed"]) if "computed" in c else None,
                )
                for c in data["columns"]
            )
            table = TableId(data["database"], data["table"], str(data.get("catalog", "")))
            more = (bool(data.get("partial", False)), str(data.get("identity", "")), str(data.get("comment", "")))
            schema = cls(table, columns, tuple(data["key"]), *more)
            unknown = [*(data.keys() - _STORED), *(n for c in data["columns"] for n in c.keys() - _STORED_COLUMN)]
            if unknown or not set(schema.names).issuperset(schema.key):
                raise ValueError(*unknown, *schema.key)  # noqa: TRY301 - worded with the others below
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"A stored schema cannot be read by this version: {error!r}"
            raise ConfigurationError(message) from error
        return schema
