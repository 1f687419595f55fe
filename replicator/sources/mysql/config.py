"""What a connection to MySQL or MariaDB is made of, and the form that asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from replicator.addresses import checked_authority, checked_host
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

DEFAULT_PORT = 3306
MAX_SERVER_ID = 2**32 - 1
# Derived ids start here: ids that people choose are small numbers.
_DERIVED_FROM = 1_000_000_000


class TlsMode(StrEnum):
    """The meaning is that of the `--ssl-mode` option of the mysql client."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True)
class MySqlConfig:
    """`ca` is the PEM text of a certificate authority, empty for the system's; `connect_timeout` is in seconds.

    `server_id`: None gives each replicator its own, see `server_id_for`.
    `statement_timeout`: seconds for one SELECT while a user waits for the answer (0: unlimited).
    """

    host: str
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)  # invariant 8
    tls: TlsMode = TlsMode.PREFERRED
    ca: str = field(default="", repr=False)
    server_id: int | None = None
    connect_timeout: float = 10.0
    watermark_database: str = "tidemark"
    statement_timeout: int = 0

    @property
    def verified(self) -> bool:
        """TLS proves who the server is; any name's certificate from any authority would not."""
        return self.tls is TlsMode.VERIFY_IDENTITY or (self.tls is TlsMode.VERIFY_CA and bool(self.ca))

    def server_id_for(self, replicator: str) -> int:
        """The id under which a replicator reads the log: the same after every restart, another for every replicator."""
        if self.server_id is not None:
            return self.server_id
        digest = hashlib.sha256(f"tidemark/{self.host}:{self.port}/{replicator}".encode()).digest()
        return _DERIVED_FROM + int.from_bytes(digest[:4], "big") % (MAX_SERVER_ID - _DERIVED_FROM)

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> MySqlConfig:
        """From the form's values (texts or numbers); ConfigurationError names the field that is wrong."""
        return cls(
            host=checked_host(host_of(settings)),
            port=number(settings, "port", 1, 65535) or DEFAULT_PORT,
            user=str(settings.get("user") or ""),
            password=str(settings.get("password") or ""),
            tls=one_of(TlsMode, settings, "tls", TlsMode.PREFERRED),
            ca=checked_authority(str(settings.get("ca") or "")),
            server_id=number(settings, "server_id", 1, MAX_SERVER_ID) if settings.get("server_id") else None,
            connect_timeout=float(number(settings, "connect_timeout", 1, 300) or CONNECT_SECONDS),
            watermark_database=text(settings, "watermark_database") or "tidemark",
            statement_timeout=number(settings, "statement_timeout", 0, 3600) or 0,
        )


FORM = (
    FormField(
        "host",
        "Host",
        help="Name or address of the server whose log is read (a replica with log_replica_updates serves too).",
    ),
    FormField("port", "Port", kind="number", default=str(DEFAULT_PORT)),
    FormField("user", "User", default="tidemark"),
    PASSWORD,
    tls_field(TlsMode.PREFERRED, TlsMode.DISABLED, TlsMode.REQUIRED, TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY),
    CA,
    FormField(
        "server_id",
        "Server id",
        kind="number",
        required=False,
        keeps_secret=True,
        help="Empty: one per replicator. If set, it must be unique in the replication topology, and only one "
        "replicator may use this connection.",
    ),
    FormField(
        "watermark_database",
        "Watermark database",
        required=False,
        keeps_secret=True,
        default="tidemark",
        help="Database on the source for the watermark table of snapshots.",
    ),
    CONNECT_TIMEOUT,
)
