"""Errors as SQL Server numbers them ("Database Engine events and errors"), and Postgres' as SQL Server's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

CONTINUED = frozenset({2627, 2601, 547, 515, 8115, 220, 2628, 229, 544, 8152})  # they end the statement, not the batch
ENDS_TRANSACTION = frozenset({1205, 3960, 241, 245, 8114, 242, 8169})


class Refusal(Exception):
    """An error message for a client; level: its severity."""

    def __init__(self, number: int, message: str, level: int = 16, state: int = 1) -> None:
        super().__init__(message)
        self.number, self.message, self.level, self.state = number, message, level, state


def read_only(database: str) -> Refusal:
    """For what writes on a secondary replica."""
    return Refusal(3906, f'Failed to update database "{database}" because the database is read-only.')


def refused_replica(told: Mapping[str, Any], database: str, *, read_only: bool) -> Refusal | None:
    """Return the error for a login that the replica does not accept; `told`: see `AvailabilityGroup.states`."""
    start, allow = f"The target database, '{database}', is", told.get("allow", "all")
    if told["role"] == "resolving":
        return Refusal(
            983,
            f"Unable to access availability database '{database}' because the database replica is not in the PRIMARY or"
            " SECONDARY role. Connections to an availability database is permitted only when the database replica is in"
            " the PRIMARY or SECONDARY role. Try the operation again later.",
            14,
        )
    if told["role"] == "primary" and read_only and told.get("route") is False:
        return Refusal(
            982,
            f"Unable to access the '{database}' database because no online secondary replicas are enabled for read-only"
            " access. Check the availability group configuration to verify that at least one secondary replica is"
            " configured for read-only access. Wait for an enabled replica to come online, and retry your read-only"
            " operation.",
            14,
        )
    if told["role"] == "secondary" and allow == "no":
        return Refusal(
            976,
            f"{start} participating in an availability group and is currently not accessible for queries. Either data"
            " movement is suspended or the availability replica is not enabled for read access. To allow read-only"
            " access to this and other databases in the availability group, enable read access to one or more secondary"
            " availability replicas in the group.",
            14,
        )
    if told["role"] == "secondary" and allow == "read_only" and not read_only:
        return Refusal(
            978,
            f"The target database ('{database}') is in an availability group and is currently accessible for"
            " connections when the application intent is set to read only.",
            14,
        )
    return None


def unknown(what: str) -> Refusal:
    """What the emulator does not know; never guessed."""
    return Refusal(50000, f"The emulator does not know this T-SQL: {what}", 16)


def of_postgres(fields: Mapping[str, str], database: str) -> Refusal:
    """fields: sqlstate, message, detail, table, column, constraint, schema."""
    state, message = fields["sqlstate"], fields["message"]
    if state == "TS000":
        return Refusal(int(fields["detail"] or 50000), message)
    if state not in _NUMBERS:
        return Refusal(50000, f"The emulator's database refused: {state} {message}")
    number, text, level = _NUMBERS[state]
    denied = re.search(r"for \w+ (.*)$", message)
    named = {**fields, "database": database, "object": denied[1] if denied else ""}
    return Refusal(number, text.format(**named) or message, level)


_NUMBERS: dict[str, tuple[int, str, int]] = {
    "23505": (
        2627,
        (
            "Violation of PRIMARY KEY or UNIQUE KEY constraint '{constraint}'. Cannot insert duplicate key in object"
            " '{schema}.{table}'."
        ),
        14,
    ),
    "23502": (
        515,
        (
            "Cannot insert the value NULL into column '{column}', table '{database}.{schema}.{table}'; column does not"
            " allow nulls. INSERT fails."
        ),
        16,
    ),
    "42501": (
        229, "The SELECT permission was denied on the object '{object}', database '{database}', schema 'dbo'.", 14,
    ),
    "23503": (547, "The statement conflicted with a FOREIGN KEY constraint.", 16),
    "23514": (547, "The statement conflicted with a CHECK constraint.", 16),
    "22003": (8115, "Arithmetic overflow error converting expression to data type.", 16),
    "22001": (2628, "String or binary data would be truncated.", 16),
    "42804": (
        257,
        "Implicit conversion between these data types is not allowed. Use the CONVERT function to run this query.",
        16,
    ),
    "25006": (3906, 'Failed to update database "{database}" because the database is read-only.', 16),
    "22012": (8134, "Divide by zero error encountered.", 16),
    "22P02": (245, "Conversion failed when converting the varchar value to data type int.", 16),
    "42P01": (208, "Invalid object name.", 16),
    "42703": (207, "Invalid column name.", 16),
    "42702": (209, "Ambiguous column name.", 16),
    "42601": (102, "", 15),
    "42701": (2705, "Column names in each table must be unique.", 16),
    "42P07": (2714, "There is already an object with that name in the database.", 16),
    "40P01": (
        1205,
        (
            "Transaction was deadlocked on lock resources with another process and has been chosen as the deadlock"
            " victim. Rerun the transaction."
        ),
        13,
    ),
    "55P03": (1222, "Lock request time out period exceeded.", 16),
    "40001": (
        3960,
        (
            "Snapshot isolation transaction aborted due to update conflict. Retry the transaction or change the"
            " isolation level for the update/delete statement."
        ),
        16,
    ),
}  # fmt: skip
