"""A history: schemas and statements as plain values, which survive JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Dialect = Literal["mariadb", "mysql", "postgres", "sqlserver", "oracle"]
How = Literal["autocommit", "commit", "rollback", "left"]


@dataclass(frozen=True, slots=True)
class Session:
    """How a writer's connection is set; `charset` is that of its statements."""

    time_zone: str
    charset: str
    sql_mode: str


@dataclass(frozen=True, slots=True)
class PostgresSession:
    """How a writer's connection is set; `charset` is its client_encoding, `settings` are names with values."""

    time_zone: str
    charset: str
    settings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class OracleSession:
    """How a writer's connection is set; `charset` is the client's."""

    time_zone: str
    charset: str


AnySession = Session | PostgresSession | OracleSession


@dataclass(frozen=True, slots=True)
class Step:
    """Statements of one writer: each for itself ("autocommit"), or one transaction with this end.

    "left": they prepare a transaction in two phases, whose session then goes away.  `pause` seconds pass before the
    end, with the transaction open.
    """

    writer: int
    statements: tuple[str, ...]
    how: How
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """The writers are at work side by side, each at its own steps in order."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class History:
    """`setup` makes the tables and their first rows; then the phases, one after another.

    Statements name tables without a database, or on Postgres without a schema.  `refused`: tables that a replicator
    must refuse, by name.
    """

    seed: int
    dialect: Dialect
    sessions: tuple[AnySession, ...]
    setup: tuple[str, ...]
    phases: tuple[Phase, ...]
    refused: tuple[str, ...] = ()

    def to_json(self) -> str:
        """`from_json` gives an equal history."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> History:
        """Raises ValueError, KeyError or TypeError for what `to_json` has not written."""
        data = json.loads(text)
        return cls(
            data["seed"],
            data["dialect"],
            tuple(_session(session) for session in data["sessions"]),
            tuple(data["setup"]),
            tuple(Phase(tuple(_step(step) for step in phase["steps"])) for phase in data["phases"]),
            tuple(data["refused"]),
        )


def _session(data: dict[str, Any]) -> AnySession:
    if "sql_mode" in data:
        return Session(**data)
    if "settings" not in data:
        return OracleSession(**data)
    return PostgresSession(data["time_zone"], data["charset"], tuple((name, value) for name, value in data["settings"]))


def _step(data: dict[str, Any]) -> Step:
    return Step(data["writer"], tuple(data["statements"]), data["how"], data["pause"])
