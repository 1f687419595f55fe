"""What a connection to SQL Server is made of, and the form that asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from replicator.addresses import checked_host
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import (
    CONNECT_SECONDS,
    CONNECT_TIMEOUT,
    PASSWORD,
    host_of,
    number,
    one_of,
    text,
)

DEFAULT_PORT = 1433
MAX_NAME = 128  # sysname
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class TlsMode(StrEnum):
    """Encrypt and TrustServerCertificate of Microsoft's driver, under the names that other sources have for it."""

    DISABLED = "disabled"
    REQUIRED = "required"
    VERIFY_IDENTITY = "verify_identity"


class Login(StrEnum):
    """Who says who we are."""

    SQL = "sql"
    WINDOWS = "windows"
    ENTRA_PASSWORD = "entra_password"  # noqa: S105 - a way to log in
    ENTRA_PRINCIPAL = "entra_service_principal"
    ENTRA_MANAGED = "entra_managed_identity"
    ENTRA_DEFAULT = "entra_default"


class Capture(StrEnum):
    """What tells of changes."""

    CDC = "cdc"
    TRACKING = "change_tracking"


class ChunkReads(StrEnum):
    """How rows are read for snapshots (ADR 52)."""

    LOCKING = "locking"
    SNAPSHOT = "snapshot"


class ReadFrom(StrEnum):
    """Which replica of an availability group change tables are read from (ADR 52)."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


@dataclass(frozen=True)
class SqlServerConfig:
    """`certificate_host`: the name in the server's certificate; empty: `host`.

    `secondary_host`, `secondary_port`: of the secondary that is read; empty and 0: where the listener routes to.
    `read_only`: sessions declare that they only read (ApplicationIntent).
    `capture`: the source of changes.  `watermark_schema`: the schema of the table for marks.  `connect_timeout` is in
    seconds.  `statement_timeout`: seconds for one statement while a user waits for the answer (0: unlimited).
    """

    host: str
    port: int = DEFAULT_PORT
    database: str = ""
    login: Login = Login.SQL
    user: str = ""
    password: str = field(default="", repr=False)  # invariant 8
    tls: TlsMode = TlsMode.VERIFY_IDENTITY
    certificate_host: str = ""
    connect_timeout: int = CONNECT_SECONDS
    capture: Capture = Capture.CDC
    watermark_schema: str = "tidemark"
    chunk_reads: ChunkReads = ChunkReads.LOCKING
    statement_timeout: int = 0
    read_from: ReadFrom = ReadFrom.PRIMARY
    secondary_host: str = ""
    secondary_port: int = 0
    read_only: bool = False

    @property
    def of_reading(self) -> SqlServerConfig:
        """Of the sessions that read change tables."""
        if self.read_from is ReadFrom.PRIMARY:
            return self
        host, port = self.secondary_host or self.host, self.secondary_port or self.port
        return replace(self, host=host, port=port, read_only=True)

    @property
    def where(self) -> str:
        """Server and database, for messages."""
        return f"{self.host}:{self.port}/{self.database}"

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> SqlServerConfig:
        """From the form's values (texts or numbers); ConfigurationError names the field that is wrong."""
        database = text(settings, "database")
        if not database:
            raise ConfigurationError("The connection has no database.")
        if len(database) > MAX_NAME or "\0" in database:
            raise ConfigurationError(f"database is not a valid name: it has more than {MAX_NAME} characters.")
        schema = text(settings, "watermark_schema") or "tidemark"
        if not _SCHEMA.fullmatch(schema):
            raise ConfigurationError("watermark_schema must consist of letters, digits and _ (at most 64).")
        certificate_host = text(settings, "certificate_host")
        capture = one_of(Capture, settings, "capture", Capture.CDC)
        read_from = one_of(ReadFrom, settings, "read_from", ReadFrom.PRIMARY)
        secondary_host, secondary_port = "", 0
        if capture is Capture.TRACKING:  # "change tracking is explicitly disabled on secondary databases"
            read_from = ReadFrom.PRIMARY
        if read_from is ReadFrom.SECONDARY and (secondary_host := text(settings, "secondary_host")):
            secondary_host = checked_host(secondary_host)
            secondary_port = number(settings, "secondary_port", 1, 65535) or DEFAULT_PORT
        return cls(
            host=checked_host(host_of(settings)),
            port=number(settings, "port", 1, 65535) or DEFAULT_PORT,
            database=database,
            login=one_of(Login, settings, "login", Login.SQL),
            user=str(settings.get("user") or ""),
            password=str(settings.get("password") or ""),
            tls=one_of(TlsMode, settings, "tls", TlsMode.VERIFY_IDENTITY),
            certificate_host=checked_host(certificate_host) if certificate_host else "",
            connect_timeout=number(settings, "connect_timeout", 1, 300) or CONNECT_SECONDS,
            capture=capture,
            watermark_schema=schema,
            chunk_reads=one_of(ChunkReads, settings, "chunk_reads", ChunkReads.LOCKING),
            statement_timeout=number(settings, "statement_timeout", 0, 3600) or 0,
            read_from=read_from,
            secondary_host=secondary_host,
            secondary_port=secondary_port,
        )


_WITH_PASSWORD = (Login.SQL, Login.ENTRA_PASSWORD, Login.ENTRA_PRINCIPAL)
_WITH_USER = (*_WITH_PASSWORD, Login.ENTRA_MANAGED)
FORM = (
    FormField(
        "host",
        "Host",
        help="Name or address of the primary replica or of the availability group's listener. Of a named instance, "
        "enter its port.",
    ),
    FormField("port", "Port", kind="number", default=str(DEFAULT_PORT)),
    FormField("database", "Database", help="One connection reads one database; its schemas are chosen later."),
    FormField(
        "login",
        "Login",
        kind="choice",
        required=False,
        default=Login.SQL,
        main=True,
        choices=(
            (Login.SQL, "SQL Server login"),
            (Login.WINDOWS, "Windows (Kerberos ticket of the worker)"),
            (Login.ENTRA_PASSWORD, "Microsoft Entra: user and password"),
            (Login.ENTRA_PRINCIPAL, "Microsoft Entra: service principal"),
            (Login.ENTRA_MANAGED, "Microsoft Entra: managed identity of the worker"),
            (Login.ENTRA_DEFAULT, "Microsoft Entra: the worker’s own sign-in"),
        ),
    ),
    FormField(
        "user",
        "User",
        default="tidemark",
        required=False,
        main=True,
        when=(("login", _WITH_USER),),
        help="Of a service principal or a managed identity: its client id.",
    ),
    replace(PASSWORD, when=(("login", _WITH_PASSWORD),)),
    FormField(
        "tls",
        "TLS",
        kind="choice",
        required=False,
        default=TlsMode.VERIFY_IDENTITY,
        choices=(
            (TlsMode.DISABLED, "Off"),
            (TlsMode.REQUIRED, "Always, any certificate"),
            (TlsMode.VERIFY_IDENTITY, "Always, certificate and host name checked"),
        ),
        help="A SQL Server login sends the password itself. Only a checked certificate keeps it from another server. "
        "Authorities are those of the worker's system.",
    ),
    FormField(
        "certificate_host",
        "Host name in the certificate",
        required=False,
        when=(("tls", (TlsMode.VERIFY_IDENTITY,)),),
        help="Empty: the host above.",
    ),
    FormField(
        "capture",
        "Changes are read from",
        kind="choice",
        required=False,
        keeps_secret=True,
        default=Capture.CDC,
        choices=(
            (Capture.CDC, "Change data capture"),
            (Capture.TRACKING, "Change Tracking (fallback: net changes, tables with a primary key)"),
        ),
        help="Change Tracking is for editions and accounts without change data capture. It reports which rows changed, "
        "not each change: the modes history and changelog get only a row's last state at each read, deleted rows have "
        "only their key, and tables without a primary key are refused. Changing this later restarts the replicators "
        "from scratch.",
    ),
    FormField(
        "read_from",
        "Change tables are read from",
        kind="choice",
        required=False,
        default=ReadFrom.PRIMARY,
        when=(("capture", (Capture.CDC,)),),
        choices=(
            (ReadFrom.PRIMARY, "The primary replica"),
            (ReadFrom.SECONDARY, "A readable secondary replica (preview)"),
        ),
        help="A secondary of an Always On availability group takes the load of reading the log. Rows come later by "
        "what it is behind. Existing rows are still read from the primary replica, and marks are written there.",
    ),
    FormField(
        "secondary_host",
        "Host of the secondary",
        required=False,
        when=(("read_from", (ReadFrom.SECONDARY,)),),
        help="Empty: the listener above sends readers to one (read-only routing), which then gets the login as well.",
    ),
    FormField(
        "secondary_port",
        "Port of the secondary",
        kind="number",
        required=False,
        default=str(DEFAULT_PORT),
        when=(("read_from", (ReadFrom.SECONDARY,)),),
        help="Used with the host of the secondary.",
    ),
    FormField(
        "watermark_schema",
        "Watermark schema",
        required=False,
        keeps_secret=True,
        default="tidemark",
        help="Schema in the database for the watermark table of snapshots.",
    ),
    FormField(
        "chunk_reads",
        "Isolation of snapshots",
        kind="choice",
        required=False,
        keeps_secret=True,
        default=ChunkReads.LOCKING,
        choices=((ChunkReads.LOCKING, "READ COMMITTED with row locks"), (ChunkReads.SNAPSHOT, "SNAPSHOT")),
        help="SNAPSHOT waits for no lock, and needs ALLOW_SNAPSHOT_ISOLATION. That it never shows a commit later than "
        "the log does is not proven; see the setup guide.",
    ),
    CONNECT_TIMEOUT,
)
