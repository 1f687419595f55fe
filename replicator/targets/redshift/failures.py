"""What goes wrong with Redshift, as it says it: one sentence with a remedy; never a row's values, never a secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from replicator.errors import (
    ConfigurationError,
    TargetConflict,
    TargetError,
    TargetUnauthorized,
    TidemarkError,
    ValueDoesNotFit,
)
from replicator.targets.check import said
from replicator.targets.warehouse.sql_states import AGAIN, MEANINGS, REACH, Meaning, explained_state

_OWN: Mapping[str, Meaning] = {
    **MEANINGS,
    "25006": (TargetError, "is read-only", "Connect to a cluster or workgroup that takes writes."),
    "53300": (TargetError, "has no connection free", "End other connections, or raise the limit of the user."),
    "58P01": (TargetError, "did not find a staged file", AGAIN),
}
# Redshift has one code, XX000, for most of its internal errors; their texts tell them apart.
_TEXTS: tuple[tuple[str, Meaning], ...] = (
    ("1023", (TargetConflict, "was overtaken by another transaction (1023)", AGAIN)),
    ("serializable isolation violation", (TargetConflict, "was overtaken by another transaction (1023)", AGAIN)),
    ("1018", (TargetConflict, "was overtaken by a change of the table (1018)", AGAIN)),
    ("concurrent transaction", (TargetConflict, "was overtaken by another transaction", AGAIN)),
    (
        "disk full",
        (TargetError, "has no space left", "Resize the cluster, or free space. Tidemark then resumes automatically."),
    ),
    (
        "s3serviceexception",
        (TargetUnauthorized, "cannot read the staging bucket",
            "Check that the IAM role is attached to Redshift and may read the bucket, and the region of both."),
    ),
    ("not authorized to assume", (TargetUnauthorized, "cannot assume the IAM role", "Attach the role to Redshift.")),
    ("length of the data column", (ValueDoesNotFit, "takes no value of that size", "Exclude the column.")),
)  # fmt: skip


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Translate all errors of the connector and the socket to TargetError or TableError.

    The connector raises Python's own errors where a connection breaks within a message.  where: names the server.
    """
    try:
        yield
    except ConfigurationError as error:
        raise TargetError(error.message, remedy=error.remedy) from None
    except TidemarkError:
        raise
    except Exception as error:  # noqa: BLE001 - of any type
        raise _explained(where, error) from None  # its text may hold a row (invariant 8)


def _explained(where: str, error: Exception) -> TidemarkError:
    fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    state, text = str(fields.get("C", "")), str(fields.get("M", ""))
    if not state:
        text = said(error)
        if "authentication" in text.lower():
            state = "28"
        return explained_state(where, state, f"{type(error).__name__}: {text}", _OWN) if text else _lost(where, error)
    detail = f"{text} {fields.get('D', '')}".lower()
    if state[:2] in {"XX", "40", "55"}:
        for word, (kind, does, remedy) in _TEXTS:
            if word in detail:
                return kind(f"{where} {does}.", remedy=remedy)
    return explained_state(where, state, f"{said(text)} (SQLSTATE {state})", _OWN)


def _lost(where: str, error: Exception) -> TidemarkError:
    return TargetError(f"The connection to {where} broke ({type(error).__name__}).", remedy=REACH)
