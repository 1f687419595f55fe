"""What goes wrong with Snowflake, as it says it: one sentence with a remedy; never a row's values, never a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import requests
import urllib3
from snowflake.connector import errors

from replicator.errors import (
    ConfigurationError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)
from replicator.targets.check import said
from replicator.targets.warehouse.sql_states import AGAIN, Meaning

REACH = "Check the account, the host, and that the workers reach Snowflake over HTTPS."
LOGIN = "Correct the user and the credentials of the destination: they may be wrong or have expired."
TEST = "Run the test of the destination. It shows the GRANT to run in Snowflake."
# By the number of Snowflake's error.
_NUMBERS: Mapping[int, Meaning] = {
    390111: (TargetError, "has ended the session", AGAIN),
    390112: (TargetError, "has ended the session", AGAIN),
    390114: (TargetError, "has ended the session", AGAIN),
    390201: (TargetUnauthorized, "has no such role, warehouse or database for this user", TEST),
    606: (TargetError, "has no warehouse to work with", "Set the warehouse of the destination, or the user's default."),
    90073: (TargetError, "has used up the warehouse's quota", "Raise the quota of its resource monitor."),
    604: (TargetError, "cancelled the statement", AGAIN),
    625: (TargetConflict, "has a lock of another worker", AGAIN),
    630: (TargetError, "cancelled a statement that took too long", "Use a larger warehouse. Retried automatically."),
    2002: (TargetConflict, "has the object already, which another worker has made", AGAIN),
    2003: (TargetError, "has no such object for this role", TEST),
    2043: (TargetError, "has no such object for this role", TEST),
    3001: (TargetUnauthorized, "does not allow it", TEST),
}
_LOGIN = range(390000, 391000)
_STATES: Mapping[str, Meaning] = {
    "42501": (TargetUnauthorized, "does not allow it", TEST),
    "57014": (TargetError, "cancelled the statement", AGAIN),
    "40": (TargetConflict, "was overtaken by another transaction", AGAIN),
    "22": (ValueDoesNotFit, "does not take a value", "Exclude the column from the replicator, or change the value."),
    "54": (UnsupportedDdl, "has a limit that the table exceeds", "Exclude columns of the table from the replicator."),
}
_VALUES = range(100000, 101000)  # errors of this range repeat the value


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Translate all errors of the vendor's client and the socket to TargetError or TableError.

    where: names the account.
    """
    try:
        yield
    except ConfigurationError as error:
        raise TargetError(error.message, remedy=error.remedy) from None
    except errors.Error as error:
        raise _explained(where, error) from None  # its text may hold a row (invariant 8)
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise TargetError(f"{where} cannot be reached: {type(error).__name__}", remedy=REACH) from None


def _explained(where: str, error: errors.Error) -> TidemarkError:
    number, state = abs(error.errno or 0), error.sqlstate or ""
    meaning = _NUMBERS.get(number) or _STATES.get(state) or _STATES.get(state[:2])
    if meaning is None and (number in _LOGIN or isinstance(error, errors.ForbiddenError)):
        meaning = TargetUnauthorized, "refused the login", LOGIN
    kind, does, remedy = meaning or (TargetError, "failed", REACH)
    return kind(f"{where} {does}: {_said(error, number)}", remedy=remedy)


def _said(error: errors.Error, number: int) -> str:
    name = f"error {number:06d}" if number else type(error).__name__
    if number in _VALUES:
        return name
    return f"{name} {said(error.raw_msg or '')}".strip()
