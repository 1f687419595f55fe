"""What the codes of PostgreSQL's family of servers mean to a target.

https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

from collections.abc import Mapping

from replicator.errors import (
    StorageFull,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    UnsupportedDdl,
    ValueDoesNotFit,
)

MAX_TEXT = 300
REACH = "Check that the server is running and reachable from the web server and the workers at its address and port."
AGAIN = "Retried automatically."
Meaning = tuple[type[TidemarkError], str, str]
# By a code, or by its first two characters.  What is not here is retried.
MEANINGS: Mapping[str, Meaning] = {
    "40001": (TargetConflict, "was overtaken by another transaction", AGAIN),
    "40P01": (TargetConflict, "met a deadlock", AGAIN),
    "23505": (TargetConflict, "met a row that another worker has put in", AGAIN),
    "42P07": (TargetConflict, "has the table already, which another worker has made", AGAIN),
    "57014": (TargetError, "cancelled the statement", AGAIN),
    "53100": (StorageFull, "has no space left", "Free space on its disk. Tidemark then resumes automatically."),
    "53300": (TargetError, "has no connection free", "Raise max_connections, or end other connections."),
    "42501": (
        TargetUnauthorized,
        "does not allow it",
        "Run the test of the destination. It shows the GRANT to run on the server.",
    ),
    "42939": (
        UnsupportedDdl,
        "reserves names that begin with pg_",
        "Give the replicator a prefix, or a routing rule for this schema.",
    ),
    "2BP01": (
        TargetError,
        "has views or other objects that depend on it",
        "Drop what depends on the table, or on the column that changes. Retried automatically.",
    ),
    "3D000": (TargetError, "has no such database", "Create the database, or correct the destination."),
    "28": (TargetUnauthorized, "refused the login", "Correct the user and password of the destination."),
    "22": (ValueDoesNotFit, "does not take a value", "Exclude the column from the replicator, or change the value."),
    "54": (UnsupportedDdl, "has a limit that the table exceeds", "Exclude columns of the table from the replicator."),
}


def explained_state(where: str, state: str, said: str, meanings: Mapping[str, Meaning] = MEANINGS) -> TidemarkError:
    """The error of a server's answer.  where: names the server; said: its text, without a row's values."""
    kind, does, remedy = meanings.get(state) or meanings.get(state[:2]) or (TargetError, "failed", REACH)
    return kind(f"{where} {does}: {said}", remedy=remedy)
