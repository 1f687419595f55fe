"""Conditions and keys that a user gave, inside of the statements of a source.

A condition is parsed and built again from columns that are taken in clear, literals, operators and a short list of
functions: who may ask for a snapshot, or writes a signal, need not have the rights of Tidemark's account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from replicator.errors import ConditionRefused, ConfigurationError, TidemarkError
from replicator.model.identifiers import TableId
from replicator.model.schema import TableSchema
from replicator.sources.shared.dialect import SourceDialect

if TYPE_CHECKING:
    from sqlglot import exp

MAX_CONDITION_LENGTH = 10_000
_REMEDY = "Enter a WHERE condition, such as: updated_at >= '2026-01-01' AND region = 'north'"
_CODE = re.compile(r"\((?:error|SQLSTATE) \w+\)")
# Names of sqlglot's classes; of functions, those that neither wait nor tell anything but of their arguments.
_PARTS = frozenset(
    [
        "And",
        "Or",
        "Not",
        "Paren",
        "EQ",
        "NEQ",
        "LT",
        "LTE",
        "GT",
        "GTE",
        "NullSafeEQ",
        "NullSafeNEQ",
        "Is",
        "Null",
        "Boolean",
        "Literal",
        "Column",
        "Identifier",
        "In",
        "Between",
        "Like",
        "ILike",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "Neg",
        "Cast",
        "DataType",
        "DataTypeParam",
        "Interval",
        "Var",
        "Lower",
        "Upper",
        "Length",
        "Trim",
        "Substring",
        "Coalesce",
        "Abs",
        "Year",
        "Month",
        "Day",
        "TsOrDsToDate",
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
    ]
)
_TYPES = frozenset(
    [
        "DATE",
        "TIME",
        "TIMETZ",
        "TIMESTAMP",
        "TIMESTAMPTZ",
        "DATETIME",
        "DATETIME2",
        "NVARCHAR",
        "INT",
        "BIGINT",
        "UBIGINT",
        "SMALLINT",
        "TINYINT",
        "DECIMAL",
        "DOUBLE",
        "FLOAT",
        "TEXT",
        "VARCHAR",
        "CHAR",
        "BOOLEAN",
        "UUID",
        "INTERVAL",
    ]
)
_NAMED = frozenset({"NOW"})  # functions for which sqlglot has no class


def condition_sql(text: str, schema: TableSchema, dialect: SourceDialect) -> str:
    """The condition in the words of the source.

    ConditionRefused for all that is none over columns of the schema.

    A column that is left out is not in the schema; of a masked one no rows can be chosen, for that would tell its
    values.
    """
    try:
        return _rebuilt(text.strip(), schema, dialect)
    except RecursionError:
        raise _refused(schema, "it is nested too deeply") from None


@lru_cache(maxsize=64)
def _rebuilt(text: str, schema: TableSchema, dialect: SourceDialect) -> str:
    import sqlglot  # noqa: PLC0415 - a third of a second, and few processes need it
    from sqlglot import exp  # noqa: PLC0415

    if not text:
        raise _refused(schema, "it is empty")
    if len(text) > MAX_CONDITION_LENGTH or "\0" in text:
        raise _refused(schema, f"it is longer than {MAX_CONDITION_LENGTH:,} characters, or has a NUL")
    try:
        [statement] = sqlglot.parse(f"SELECT 1 FROM t WHERE {text}", dialect=dialect.parser)
    except (sqlglot.errors.SqlglotError, ValueError):
        raise _refused(schema, "it is not a single boolean expression") from None
    if not isinstance(statement, exp.Select) or {name for name, one in statement.args.items() if one} != {"expressions",
        "from_", "where"}:  # fmt: skip
        raise _refused(schema, "it is not a single boolean expression")
    found: exp.Expr = statement.args["where"].this
    for part in list(found.walk()):
        _check(part, schema, dialect)
    return found.sql(dialect=dialect.parser, comments=False)


def _check(part: exp.Expr, schema: TableSchema, dialect: SourceDialect) -> None:
    """Names of columns are quoted on the way, as the schema has them."""
    kind = type(part).__name__
    if kind == "Column":
        part.this.replace(_column(part, schema, dialect))
    elif kind == "Literal":
        if part.is_string and "\\" in part.name:  # by the server's settings one, or an escape
            raise _refused(schema, "it has a backslash in a string")
    elif kind == "DataType" and part.this.name not in _TYPES:
        raise _refused(schema, f"it has the type {part.sql()}, which is not supported in a condition")
    elif kind not in _PARTS and not (kind == "Anonymous" and part.name.upper() in _NAMED and not part.expressions):
        called = part.name if kind == "Anonymous" else part.key
        raise _refused(schema, f"it has {called.upper()}, which is not supported in a condition")


def _column(part: exp.Expr, schema: TableSchema, dialect: SourceDialect) -> exp.Expr:
    from sqlglot import exp  # noqa: PLC0415

    quoted = bool(getattr(part.this, "quoted", False))
    known = [one for one in schema.columns if dialect.means(part.name, one.name, quoted=quoted)]
    if len(known) != 1 or type(part.this).__name__ != "Identifier" or any(part.args.get(one) for one in ("table", "db",
            "catalog")):  # fmt: skip
        raise _refused(schema, f"it names {part.sql()}, which is not a replicated column")
    if known[0].computed:
        raise _refused(schema, f"{known[0].name} is a computed column, which the source does not have")
    if known[0].masked:
        raise _refused(schema, f"{known[0].name} is masked, so rows cannot be selected by it")
    return exp.to_identifier(known[0].name, quoted=True)


def _refused(schema: TableSchema, why: str) -> ConditionRefused:
    message = f"Invalid condition: {why}."
    return ConditionRefused(message, table=str(schema.table), remedy=_REMEDY)


@contextmanager
def users_fault(table: TableId, *, asked: bool) -> Iterator[None]:
    """Report the server's rejection of a statement as a fault of the user's condition or keys, which is not retried.

    `asked`: the statement contains something of the user's.  The server's message may hold values: only its code is
    kept.
    """
    try:
        yield
    except ConditionRefused:
        raise
    except TidemarkError as error:
        if not asked or not (error.answered or isinstance(error, ConfigurationError)):
            raise
        code = _CODE.search(error.message)
        message = f"The source rejected the request{f' {code[0]}' if code else ''}."
        raise ConditionRefused(message, table=str(table)) from None


def watched(batches: Iterator[pa.RecordBatch], table: TableId, *, asked: bool) -> Iterator[pa.RecordBatch]:
    """The same of rows that come later."""
    with users_fault(table, asked=asked):
        yield from batches
