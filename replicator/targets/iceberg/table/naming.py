"""Names: any characters towards the user, safe ones towards the storage."""

from __future__ import annotations

import re
import uuid
from datetime import date
from decimal import Decimal

from replicator.folding.footers import Bound
from replicator.model.types import DataType, Kind
from replicator.targets.base import TargetTable
from replicator.targets.iceberg.jvm.session import CATALOG
from replicator.targets.iceberg.spark.changes import quoted, spark_type

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
SLUG = 40


def sql_name(table: TargetTable) -> str:
    """The table in Spark SQL."""
    return f"{CATALOG}.{quoted(table.namespace)}.{quoted(table.name)}"


def sql_string(text: str) -> str:
    """A Spark string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + escaped.replace("\0", "\\0") + "'"


def sql_literal(value: Bound, kind: DataType) -> str:
    """A literal of exactly the type `kind`: int, bigint, decimal, date and string only."""
    if kind.kind is Kind.STRING:
        return sql_string(str(value))
    if isinstance(value, date):
        return f"DATE {sql_string(value.isoformat())}"
    if isinstance(value, Decimal):
        return f"CAST({sql_string(format(value, 'f'))} AS {spark_type(kind).simpleString()})"
    return f"CAST({sql_string(str(value))} AS {spark_type(kind).simpleString()})"


def location(warehouse: str, table: TargetTable) -> str:
    """A folder of the table's own: readable, of safe characters, and never used before.

    The random part keeps apart what differs in case only, what was renamed away, and an older table of the same name.
    """
    folder = f"{_slug(table.namespace)}/{_slug(table.name)}-{uuid.uuid4().hex[:12]}"
    return f"{warehouse.rstrip('/')}/{folder}"


def _slug(name: str) -> str:
    return _UNSAFE.sub("_", name)[:SLUG].strip("_") or "table"
