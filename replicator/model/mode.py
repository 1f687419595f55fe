"""What a table of the target keeps of its source's changes: one mode for each generation of the table
(`targets.base.Create`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from replicator.errors import UnsupportedDdl, UnsupportedType
from replicator.model.schema import COMMIT_TS, OPERATION, RESERVED, UNCHANGED, TableSchema
from replicator.model.types import BIGINT, DataType, Kind

DELETED, DELETED_AT = "_is_deleted", "_deleted_at"  # Iceberg has its own metadata column called _deleted
VALID_FROM, VALID_TO, CURRENT = "_valid_from", "_valid_to", "_is_current"
BELOW = "_below"


class Mode(StrEnum):
    """docs/modes.md says for users what each is."""

    MIRROR = "mirror"
    SOFT_DELETE = "soft_delete"
    HISTORY = "history"
    CHANGELOG = "changelog"

    @property
    def columns(self) -> Mapping[str, DataType]:
        """The target's own columns, behind `_sequence_num`."""
        return _COLUMNS[self]

    @property
    def label(self) -> str:
        """For people."""
        return self.value.replace("_", " ")

    @property
    def needs_key(self) -> bool:
        return self in {Mode.SOFT_DELETE, Mode.HISTORY}

    def check(self, schema: TableSchema) -> None:
        """UnsupportedDdl for a table without a key where the mode needs one; UnsupportedType for a column with a name
        of ours.
        """
        if self.needs_key and not schema.key:
            message = f"{schema.table} has no key, which the mode {self.label} requires."
            remedy = "Add a primary key in the source, or use the mode mirror or changelog."
            raise UnsupportedDdl(message, table=str(schema.table), remedy=remedy)
        for name in schema.names:
            if name in RESERVED or name.lower() in self.columns:
                message = f"The column name {name} of {schema.table} is reserved by Tidemark."
                raise UnsupportedType(message, table=str(schema.table))


_BOOLEAN, _STRING, _TIME = DataType(Kind.BOOLEAN), DataType(Kind.STRING), DataType(Kind.TIMESTAMP)
_COLUMNS: Mapping[Mode, Mapping[str, DataType]] = {
    Mode.MIRROR: {},
    Mode.SOFT_DELETE: {DELETED: _BOOLEAN, DELETED_AT: _TIME},
    Mode.HISTORY: {VALID_FROM: _TIME, VALID_TO: _TIME, CURRENT: _BOOLEAN},
    Mode.CHANGELOG: {OPERATION: _STRING, COMMIT_TS: _TIME, UNCHANGED: _STRING, BELOW: BIGINT},
}
# Names that no column of a table in any mode can have.
OWN_COLUMNS = RESERVED.union(*_COLUMNS.values())
