"""What a connection to Postgres is made of, and the form that asks for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from replicator.addresses import checked_authority, checked_host
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import (
    CA,
    CONNECT_SECONDS,
    CONNECT_TIMEOUT,
    PASSWORD,
    host_of,
    number,
    one_of,
    text,
    tls_field,
)

DEFAULT_PORT = 5432
MAX_NAME = 63  # NAMEDATALEN - 1
_PREFIX = "tidemark_"
_HASHED = 8
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off", ""})


class TlsMode(StrEnum):
    """The meaning is that of libpq's `sslmode`."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


@dataclass(frozen=True)
class PostgresConfig:
    """`ca` is the PEM text of a certificate authority, empty for the system's; `connect_timeout` is in seconds.

    `publication`, `slot`: the user's own, which must exist; empty: Tidemark creates one of each for every replicator.
    `retention_limit_mb`: WAL that the server may retain for a replicator before its slot is dropped (None: unlimited).
    `statement_timeout`: seconds for one statement while a user waits for the answer (0: unlimited).
    `event_trigger`: a trigger on the source writes table definitions into the log, in the order of the changes.
    """

    host: str
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)  # invariant 8
    database: str = ""
    tls: TlsMode = TlsMode.PREFER
    ca: str = field(default="", repr=False)
    connect_timeout: float = 10.0
    publication: str = ""
    slot: str = ""
    retention_limit_mb: int | None = None
    event_trigger: bool = False
    statement_timeout: int = 0

    @property
    def where(self) -> str:
        """Server and database, for messages."""
        return f"{self.host}:{self.port}/{self.database}"

    @property
    def verified(self) -> bool:
        """TLS proves who the server is; any name's certificate from any authority would not."""
        return self.tls is TlsMode.VERIFY_FULL or (self.tls is TlsMode.VERIFY_CA and bool(self.ca))

    def publication_for(self, replicator: str) -> str:
        """The publication that a replicator reads: the user's, or `tidemark_<replicator>`."""
        return self.publication or _own_name(replicator)

    def slot_for(self, replicator: str) -> str:
        """The replication slot of a replicator: the user's, or `tidemark_<replicator>`."""
        return self.slot or _own_name(replicator)

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> PostgresConfig:
        """From the form's values (texts, numbers, booleans); ConfigurationError names the field that is wrong."""
        user = str(settings.get("user") or "")
        database = text(settings, "database") or user
        if not database:
            message = "The connection has no database."
            raise ConfigurationError(message)
        return cls(
            host=checked_host(host_of(settings)),
            port=number(settings, "port", 1, 65535) or DEFAULT_PORT,
            user=user,
            password=str(settings.get("password") or ""),
            database=database,
            tls=one_of(TlsMode, settings, "tls", TlsMode.PREFER),
            ca=checked_authority(text(settings, "ca")),
            connect_timeout=float(number(settings, "connect_timeout", 1, 300) or CONNECT_SECONDS),
            publication=_name(settings, "publication"),
            slot=_slot(settings),
            retention_limit_mb=number(settings, "retention_limit_mb", 64, 2**31 - 1),
            event_trigger=_choice(settings, "event_trigger"),
            statement_timeout=number(settings, "statement_timeout", 0, 3600) or 0,
        )


def _own_name(replicator: str) -> str:
    """`tidemark_` and the name in [a-z0-9_]; with a part of its digest where that is not the name itself, so two never
    meet.
    """
    plain = re.sub(r"[^a-z0-9_]", "_", replicator.lower())
    if plain == replicator and len(_PREFIX + plain) <= MAX_NAME:
        return _PREFIX + plain
    digest = hashlib.sha256(replicator.encode("utf-8", "surrogatepass")).hexdigest()[:_HASHED]
    return f"{_PREFIX}{plain[: MAX_NAME - len(_PREFIX) - _HASHED - 1]}_{digest}"


def _name(settings: Mapping[str, Any], name: str) -> str:
    value = text(settings, name)
    if len(value.encode("utf-8", "surrogatepass")) > MAX_NAME or "\0" in value:
        message = f"{name} is not a valid Postgres name: it has more than {MAX_NAME} bytes."
        raise ConfigurationError(message)
    return value


def _slot(settings: Mapping[str, Any]) -> str:
    value = text(settings, "slot")
    if value and not _SLOT.fullmatch(value):
        message = f"invalid name for a replication slot: a-z, 0-9 and _, at most {MAX_NAME}."
        raise ConfigurationError(message)
    return value


def _choice(settings: Mapping[str, Any], name: str) -> bool:
    value = text(settings, name).lower()
    if value not in _YES | _NO:
        message = f"{name} is {value!r}; it must be yes or no."
        raise ConfigurationError(message)
    return value in _YES


FORM = (
    FormField(
        "host",
        "Host",
        help="Name or address of the primary server itself. Connection poolers do not support replication.",
    ),
    FormField("port", "Port", kind="number", default=str(DEFAULT_PORT)),
    FormField("database", "Database", help="One connection reads one database; its schemas are chosen later."),
    FormField("user", "User", default="tidemark"),
    PASSWORD,
    tls_field(TlsMode.PREFER, TlsMode.DISABLE, TlsMode.REQUIRE, TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL),
    CA,
    FormField(
        "publication",
        "Publication",
        required=False,
        keeps_secret=True,
        help="Empty: Tidemark creates one per replicator. Your own publication must exist and contain the tables; "
        "it is never changed.",
    ),
    FormField(
        "slot",
        "Replication slot",
        required=False,
        keeps_secret=True,
        help="Empty: Tidemark creates one per replicator. Your own slot must exist (plugin pgoutput); only one "
        "replicator may use this connection, and the slot is never dropped.",
    ),
    FormField(
        "retention_limit_mb",
        "WAL retention limit (MB)",
        kind="number",
        required=False,
        keeps_secret=True,
        help="Above it Tidemark drops its slot, so that the source's disk does not fill, and resnapshots the tables "
        "later. Empty: WAL is retained without limit.",
    ),
    FormField(
        "event_trigger",
        "DDL trigger on the source",
        kind="choice",
        required=False,
        keeps_secret=True,
        default="no",
        choices=(("no", "No"), ("yes", "Yes")),
        help="An event trigger that writes schema changes into the log. Without it Tidemark detects a "
        "change with the table's next row.",
    ),
    CONNECT_TIMEOUT,
)
