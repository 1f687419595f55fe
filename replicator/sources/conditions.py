"""Conditions and keys that a user gave, inside of the statements of a source.

A condition is handed to the source's SELECT as it is, in parentheses; the source alone knows what it means.  Who may ask for a snapshot
may read the table anyway.  Nothing but a condition may come of it: no second statement, no comment that swallows what follows, no
parenthesis that ends ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from replicator.errors import ConditionRefused, ConfigurationError, TidemarkError
from replicator.model.identifiers import TableId

LONGEST = 10_000
_NEVER = {";": "a semicolon", "--": "a comment (--)", "/*": "a comment (/*)", "\0": "a NUL"}
_REMEDY = "Give what would stand behind WHERE, such as: updated_at >= '2026-01-01' AND region = 'north'"


def require_condition(text: str) -> str:
    """The condition, stripped.  ConfigurationError for what cannot be one; whether it is one the source is asked (`try_rows`)."""
    condition = text.strip()
    wrong = next((name for part, name in _NEVER.items() if part in condition), "")
    if wrong:
        message = f"A condition must not hold {wrong}, not even in a text."
        raise ConfigurationError(message, remedy=_REMEDY)
    if not condition or len(condition) > LONGEST:
        message = (
            "The condition is empty." if not condition else f"The condition is longer than {LONGEST:,} characters."
        )
        raise ConfigurationError(message, remedy=_REMEDY)
    return condition


def trials(condition: str) -> list[str]:
    """What the server must take, all of it, so that the condition is one expression.

    A text with a parenthesis that ends ours (`1) OR (1`) is none inside of CASE, and one that ends CASE is none in parentheses.
    """
    return [f"({condition})", f"CASE WHEN {condition} THEN TRUE ELSE FALSE END"]


@contextmanager
def users_fault(table: TableId, *, asked: bool) -> Iterator[None]:
    """What the server has against a statement with something of the user's in it, is said of that, and not tried again.

    `asked`: there is something of the user's in it.
    """
    try:
        yield
    except TidemarkError as error:
        if not asked or not (error.answered or isinstance(error, ConfigurationError)):
            raise
        message = f"The source does not take what was asked for: {error.message}"
        raise ConditionRefused(message, table=str(table)) from None


def watched(batches: Iterator[pa.RecordBatch], table: TableId, *, asked: bool) -> Iterator[pa.RecordBatch]:
    """The same of rows that come later."""
    with users_fault(table, asked=asked):
        yield from batches
