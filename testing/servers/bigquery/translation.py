"""GoogleSQL to DuckDB's SQL, by sqlglot; what BigQuery refuses is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from testing.servers.bigquery.refusals import Refusal
from testing.servers.bigquery.tables import Place, Table

OPTIONS = re.compile(r"\s+OPTIONS\s*\(\s*labels\s*=\s*\[\('(\w+)', '(\w+)'\)\]\s*\)\s*$")
WITH_WHERE = (exp.Delete, exp.Update)


def parsed(sql: str) -> exp.Expr:
    """Refusal for what GoogleSQL has not."""
    try:
        made = sqlglot.parse_one(sql, read="bigquery")
    except SqlglotError as error:
        raise Refusal("invalidQuery", f"Syntax error: {' '.join(str(error).split())[:200]}") from None
    if isinstance(made, exp.Command):
        raise Refusal("invalidQuery", f"Syntax error: Unexpected statement {sql[:60]}")
    return made


def place_of(table: exp.Table, project: str) -> Place:
    """Of a full name."""
    if not table.db or not table.catalog:
        raise Refusal("invalidQuery", f'Table "{table.name}" must be qualified with a dataset (e.g. dataset.table).')
    if table.catalog != project:
        raise Refusal("accessDenied", f"Access Denied: Project {table.catalog}: User does not have permission")
    return table.db, table.name


def translated(tree: exp.Expr, find: Callable[[exp.Table], Table], variables: Mapping[str, Any]) -> str:
    """For DuckDB.  find: the table of a name."""
    if isinstance(tree, WITH_WHERE) and not tree.args.get("where"):
        raise Refusal("invalidQuery", f"{type(tree).__name__.upper()} must have a WHERE clause")
    _check_windows(tree, find)
    tree = tree.copy()
    names = {one.alias_or_name.lower() for one in tree.find_all(exp.CTE)}
    for table in list(tree.find_all(exp.Table)):
        if table.db or table.name.lower() not in names:
            alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))
            table.replace(exp.Table(this=exp.to_identifier(find(table).physical), alias=alias))
    for text in list(tree.find_all(exp.JSONFormat)):
        text.replace(exp.Anonymous(this="to_json_string_", expressions=[text.this]))
    for column in list(tree.find_all(exp.Column)):
        if not column.table and column.name in variables:
            value = exp.convert(variables[column.name])
            column.replace(exp.alias_(value, column.name) if isinstance(column.parent, exp.Select) else value)
    if isinstance(tree, exp.Insert) and isinstance(tree.this, exp.Schema):
        tree.this.this.set("alias", None)
    return tree.sql("duckdb")


def _check_windows(tree: exp.Expr, find: Callable[[exp.Table], Table]) -> None:
    """Floats cannot be partitioned by."""
    for window in tree.find_all(exp.Window):
        tables = list(window.parent_select.find_all(exp.Table)) if window.parent_select else []
        floats = {one["name"].lower() for table in tables for one in find(table).fields if one["type"] == "FLOAT"}
        for one in window.args.get("partition_by") or ():
            if isinstance(one, exp.Column) and one.name.lower() in floats:
                raise Refusal("invalidQuery", "Partitioning by expressions of type FLOAT64 is not allowed")


def field_of(column: exp.ColumnDef) -> dict[str, Any]:
    """A column of a definition, as the API has it."""
    kind = column.args["kind"]
    name = kind.this.value if isinstance(kind, exp.DataType) else str(kind)
    digits = [int(one.name) for one in kind.expressions] if isinstance(kind, exp.DataType) else []
    made: dict[str, Any] = {"name": column.name, "type": BIGQUERY.get(name, name)}
    if digits:
        made |= {"precision": digits[0], "scale": digits[1] if len(digits) > 1 else 0}
    return made


# What sqlglot calls GoogleSQL's types.
BIGQUERY = {
    "BIGINT": "INT64", "TEXT": "STRING", "DOUBLE": "FLOAT64", "BOOLEAN": "BOOL", "VARBINARY": "BYTES",
    "BINARY": "BYTES", "DECIMAL": "NUMERIC", "BIGDECIMAL": "BIGNUMERIC", "BIGNUMERIC": "BIGNUMERIC",
    "TIMESTAMP": "DATETIME", "TIMESTAMPTZ": "TIMESTAMP", "DATETIME": "DATETIME", "DATE": "DATE",
}  # fmt: skip
