"""A destination's settings: how the server is reached, and whether it holds keys unique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from replicator.sources.base import FormField
from replicator.sources.postgres import config as server
from replicator.sources.postgres.config import PostgresConfig
from replicator.sources.shared.settings import CA, CONNECT_TIMEOUT, PASSWORD, text

ENFORCED, FOUND = "enforced", "indexed"  # how keys are kept
STATEMENT_SECONDS = 3600
_SERVER = {one.name: one for one in server.FORM}
DESTINATION_FORM = (
    replace(_SERVER["host"], help="Name or address of the primary server, or of a pooler in session mode."),
    _SERVER["port"],
    replace(_SERVER["database"], help="It must exist. Each source database becomes a schema of it."),
    _SERVER["user"],
    PASSWORD,
    _SERVER["tls"],
    CA,
    FormField(
        "keys", "Keys", "choice", required=False, default=ENFORCED, keeps_secret=True,
        choices=((ENFORCED, "Primary key"), (FOUND, "Index only")),
        help="Primary key: the server holds each key unique; a key longer than about 2,700 bytes stops its table."
        " Index only: the server enforces nothing. Takes effect for tables that are created later.",
    ),
    CONNECT_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True)
class PostgresDestination:
    """server: how it is reached; enforced: are keys primary keys?"""

    server: PostgresConfig
    enforced: bool = True


def destination(settings: Mapping[str, Any]) -> PostgresDestination:
    """What a destination's settings say.  Raises ConfigurationError."""
    parsed = PostgresConfig.parse({name: settings.get(name) for name in _SERVER if name in _OWN})
    keys = text(settings, "keys") or ENFORCED
    return PostgresDestination(replace(parsed, statement_timeout=STATEMENT_SECONDS), keys != FOUND)


_OWN = frozenset(one.name for one in DESTINATION_FORM)


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for settings that lead nowhere."""
    host = text(settings, "host")
    port, database = text(settings, "port") or server.DEFAULT_PORT, text(settings, "database") or text(settings, "user")
    return f"{host.lower()}:{port}/{database}" if host else ""
