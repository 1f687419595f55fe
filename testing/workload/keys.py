"""Keys whose n-th value is an SQL expression of n, so that a row can be found again without asking the server."""

from __future__ import annotations

from dataclasses import dataclass

from testing.workload.kinds import ValueKind


@dataclass(frozen=True, slots=True)
class KeyModel:
    """`declared`: "PRIMARY KEY" or how the dialect spells a unique key; no columns: a table without key."""

    style: str
    columns: tuple[str, ...] = ()
    declared: str = "PRIMARY KEY"


@dataclass(frozen=True, slots=True)
class KeyPart:
    """A key's column: its type and how row n's value is computed."""

    kind: ValueKind
    number: str = "plain"
    extra: str = ""
