"""Names and types in Spanner.

A name begins with a letter and has letters, digits and underscores, 128 at most; case does not distinguish names.
https://cloud.google.com/spanner/docs/reference/standard-sql/data-definition-language#naming_conventions
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from replicator.errors import UnsupportedDdl
from replicator.model.mode import Mode
from replicator.model.schema import SEQUENCE
from replicator.model.types import DataType, Kind, decimal
from replicator.targets.base import TargetTable
from replicator.targets.identifiers import IdentifierPolicy, digest

MAX_NAME, MAX_COLUMNS, MAX_KEY_COLUMNS = 128, 1024, 16
MAX_WHOLE, MAX_SCALE = 29, 9  # digits of a NUMERIC before and behind the point
OWN = "tidemark"  # what Tidemark's own names begin with
ALIAS = f"{OWN}_t"  # of a table in a query: a column may have the name of its table, which would be the whole row
POSITIONS = f"{OWN}_positions"  # a table in each schema, with a row for each table
NUMERIC = decimal(38, MAX_SCALE)
# docs.cloud.google.com/spanner/quotas: a commit has at most 80,000 mutations, each column of each row and each entry of
# an index being one, and 100 MB.  Half of both is for the indexes that others have made.
MAX_MUTATIONS, MAX_COMMIT_BYTES = 40_000, 40 * 1024 * 1024
MIN_MUTATIONS, MIN_COMMIT_BYTES = 1000, 1024 * 1024
TYPES: Mapping[Kind, str] = {
    Kind.BOOLEAN: "BOOL",
    Kind.INT: "INT64",
    Kind.BIGINT: "INT64",
    Kind.DECIMAL: "NUMERIC",
    Kind.FLOAT: "FLOAT64",
    Kind.DOUBLE: "FLOAT64",
    Kind.STRING: "STRING(MAX)",
    Kind.BINARY: "BYTES(MAX)",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP",
    Kind.TIMESTAMP: "TIMESTAMP",
}
# Of several of Tidemark's types that are one in Spanner, any: the position tells which a column has.
_FOUND: Mapping[str, DataType] = {
    "BOOL": DataType(Kind.BOOLEAN),
    "INT64": DataType(Kind.BIGINT),
    "NUMERIC": NUMERIC,
    "FLOAT64": DataType(Kind.DOUBLE),
    "STRING(MAX)": DataType(Kind.STRING),
    "BYTES(MAX)": DataType(Kind.BINARY),
    "DATE": DataType(Kind.DATE),
    "TIMESTAMP": DataType(Kind.TIMESTAMP),
}
_LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TIDEMARKS = frozenset({SEQUENCE, *(name for mode in Mode for name in mode.columns)})


def _folded(name: str) -> str:
    """Small letters, and one in front."""
    return name.lower() if re.match("[A-Za-z]|$", name) else f"t{name.lower()}"


IDENTIFIERS = IdentifierPolicy(
    max_length=MAX_NAME, illegal="[^A-Za-z0-9_]", fold=_folded,
    reserved=frozenset({"information_schema", "spanner_sys", "public", "default", POSITIONS}),
)  # fmt: skip


def column_name(name: str) -> str:
    """Of a column: its own where Spanner takes that; Tidemark's begin with `tidemark_`; others get a digest.

    Different names may become equal but for case: `check_columns`.
    """
    if name in _TIDEMARKS:
        return OWN + name
    if _LEGAL.fullmatch(name) and len(name) <= MAX_NAME and not name.lower().startswith(f"{OWN}_"):
        return name
    plain = re.sub("[^A-Za-z0-9_]", "_", name)
    plain = plain if _LEGAL.match(plain) else f"c{plain}"
    return f"{plain[: MAX_NAME - 9]}_{digest(name)}"


def quoted(name: str) -> str:
    """A column as an identifier."""
    return f"`{column_name(name)}`"


def check_columns(names: Iterable[str], table: str) -> None:
    """UnsupportedDdl for columns that differ in case only, or are too many.  table: the source's."""
    listed = list(names)
    found = Counter(column_name(name).lower() for name in listed)
    if same := [name for name in listed if found[column_name(name).lower()] > 1]:
        message = f"The columns {' and '.join(same[:2])} of {table} are one name in Spanner, which ignores case."
        raise UnsupportedDdl(message, table=table, remedy="Exclude one of the columns from the replicator.")
    if len(listed) > MAX_COLUMNS - len(_TIDEMARKS):
        message = f"{table} has {len(listed)} columns; a table of Spanner has {MAX_COLUMNS} at most."
        raise UnsupportedDdl(message, table=table, remedy="Exclude columns of the table from the replicator.")


def fits(kind: DataType) -> bool:
    """Is a value of the type a number in Spanner, if it is one?"""
    return kind.kind is not Kind.DECIMAL or (kind.scale <= MAX_SCALE and kind.precision - kind.scale <= MAX_WHOLE)


def spanner_type(kind: DataType) -> str:
    """Of a column.  A decimal that NUMERIC does not have is a text: digits, with all those behind the point."""
    return TYPES[kind.kind if fits(kind) else Kind.STRING]


def found_type(said: str) -> DataType | None:
    """As INFORMATION_SCHEMA tells it."""
    return _FOUND.get(said)


def type_of(kind: pa.DataType) -> DataType:
    """Tidemark's, of a column of rows."""
    if pa.types.is_decimal(kind):
        return decimal(kind.precision, kind.scale)
    return next(one for one in map(DataType, TYPES) if one.kind is not Kind.DECIMAL and one.arrow == kind)


def api_name(table: TargetTable) -> str:
    """Return a table's name for requests other than SQL."""
    return f"{table.namespace}.{table.name}"
