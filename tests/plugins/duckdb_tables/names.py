"""What it can do, and its names and types."""

from __future__ import annotations

from replicator.model.mode import Mode
from replicator.model.types import DataType, Kind
from replicator.state.journal import DDL_OPERATIONS
from replicator.targets.base import Capabilities
from replicator.targets.identifiers import IdentifierPolicy
from replicator.targets.kind import PARTIAL, TypeSupport

CAPABILITIES = Capabilities(
    modes=frozenset({Mode.MIRROR}),
    ddl=frozenset(DDL_OPERATIONS) - {"rename_table"},
    exactly_once="transaction with a position table",
    renames=False,
)
IDENTIFIERS = IdentifierPolicy(fold=str.lower)  # to DuckDB, names that differ in case are one
NAMES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BINARY: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP",
    Kind.TIMESTAMP: "TIMESTAMPTZ",
}


def types(kind: DataType) -> TypeSupport:
    """DuckDB has a type for each; a zone is shown as the session's."""
    name = f"DECIMAL({kind.precision},{kind.scale})" if kind.kind is Kind.DECIMAL else NAMES[kind.kind]
    note = "Shown in the time zone of the session." if kind.kind is Kind.TIMESTAMP else ""
    return TypeSupport(name, PARTIAL if note else "full", note)
