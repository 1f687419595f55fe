"""What a connection to Oracle is made of, and the form that asks for it."""

from __future__ import annotations

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
)

DEFAULT_PORT = 1521
WATERMARK = "TIDEMARK_WATERMARK"
_SERVICE = re.compile(r"[A-Za-z0-9_.$#-]{1,128}")


class TlsMode(StrEnum):
    """TCP or TCPS, and what is checked of the server's certificate."""

    OFF = "off"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


class Committed(StrEnum):
    """Who keeps a transaction's rows until its end: LogMiner (COMMITTED_DATA_ONLY), or Tidemark."""

    SERVER = "server"
    TIDEMARK = "tidemark"


class Logs(StrEnum):
    """Which files are read."""

    ALL = "all"
    ARCHIVED = "archived"


class LobColumns(StrEnum):
    """What becomes of CLOB, NCLOB, BLOB and XMLTYPE: refused, or read again from the table as of each commit."""

    REFUSE = "refuse"
    RESELECT = "reselect"


@dataclass(frozen=True)
class OracleConfig:
    """`ca` is the PEM text of a certificate authority, empty for the system's; `connect_timeout` is in seconds.

    Of `service` and `sid` one is set: the service name, where the form has both.
    pdb: the tables are in this pluggable database, and the connection is to its root; empty: they are where the
    connection is.
    statement_timeout: seconds for one statement while a user waits for the answer (0: unlimited).
    """

    host: str
    port: int = DEFAULT_PORT
    service: str = ""
    sid: str = ""
    pdb: str = ""
    user: str = ""
    password: str = field(default="", repr=False)  # invariant 8
    tls: TlsMode = TlsMode.OFF
    ca: str = field(default="", repr=False)
    committed: Committed = Committed.SERVER
    logs: Logs = Logs.ALL
    lob_columns: LobColumns = LobColumns.REFUSE
    connect_timeout: float = 10.0
    statement_timeout: int = 0

    @property
    def where(self) -> str:
        """Server and database, for messages."""
        return f"{self.host}:{self.port}/{self.service or self.sid}{f' ({self.pdb})' if self.pdb else ''}"

    @property
    def lobs(self) -> bool:
        """Are large objects read?"""
        return self.lob_columns is LobColumns.RESELECT

    @property
    def watermark_owner(self) -> str:
        """The schema of the watermark table: the account's."""
        return self.user[1:-1] if self.user[:1] == '"' else self.user.upper()

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> OracleConfig:
        """From the form's values (texts or numbers); ConfigurationError names the field that is wrong."""
        service, sid = _name(settings, "service"), _name(settings, "sid")
        if not service and not sid:
            raise ConfigurationError("The connection needs a service name or a SID.")
        return cls(
            host=checked_host(host_of(settings)),
            port=number(settings, "port", 1, 65535) or DEFAULT_PORT,
            service=service,
            sid="" if service else sid,
            pdb=_name(settings, "pdb").upper(),
            user=text(settings, "user"),
            password=str(settings.get("password") or ""),
            tls=one_of(TlsMode, settings, "tls", TlsMode.OFF),
            ca=checked_authority(text(settings, "ca")),
            committed=one_of(Committed, settings, "committed", Committed.SERVER),
            logs=one_of(Logs, settings, "logs", Logs.ALL),
            lob_columns=one_of(LobColumns, settings, "lob_columns", LobColumns.REFUSE),
            connect_timeout=float(number(settings, "connect_timeout", 1, 300) or CONNECT_SECONDS),
            statement_timeout=number(settings, "statement_timeout", 0, 3600) or 0,
        )


def _name(settings: Mapping[str, Any], name: str) -> str:
    value = text(settings, name)
    if value and not _SERVICE.fullmatch(value):
        message = f"{name} is not a name that Oracle supports: letters, digits and . _ $ # - only."
        raise ConfigurationError(message)
    return value


FORM = (
    FormField("host", "Host", help="Name or address of the database server, or of the listener (SCAN) of a cluster."),
    FormField("port", "Port", kind="number", default=str(DEFAULT_PORT)),
    FormField(
        "service",
        "Service name",
        required=False,
        main=True,
        help="Of the database that is read. Of a container database before 21c: that of the root.",
    ),
    FormField("sid", "SID", required=False, help="Only without a service name: where the listener knows the SID only."),
    FormField(
        "pdb",
        "Pluggable database",
        required=False,
        main=True,
        help="The tables are in this pluggable database, and the service is the root's. Empty: no container database, "
        "or the service is the pluggable database's own (21c and later, Autonomous Database).",
    ),
    FormField("user", "User", default="tidemark", help="Of a container database: a common user, such as C##TIDEMARK."),
    PASSWORD,
    FormField(
        "tls",
        "TLS",
        kind="choice",
        default=TlsMode.OFF,
        choices=(
            (TlsMode.OFF, "Off (TCP)"),
            (TlsMode.REQUIRED, "Always (TCPS), any certificate"),
            (TlsMode.VERIFY_CA, "Always (TCPS), certificate checked"),
            (TlsMode.VERIFY_IDENTITY, "Always (TCPS), certificate and host name checked"),
        ),
    ),
    CA,
    FormField(
        "committed",
        "Rows of open transactions",
        kind="choice",
        required=False,
        keeps_secret=True,
        default=Committed.SERVER,
        choices=((Committed.SERVER, "Kept by LogMiner until commit"), (Committed.TIDEMARK, "Kept by Tidemark")),
        help="LogMiner keeps them in the server's memory (COMMITTED_DATA_ONLY). Tidemark keeps them in files of this "
        "machine where they are many.",
    ),
    FormField(
        "logs",
        "Log files",
        kind="choice",
        required=False,
        keeps_secret=True,
        default=Logs.ALL,
        choices=((Logs.ALL, "Online and archived"), (Logs.ARCHIVED, "Archived only")),
        help="Archived only: nothing reads the online redo log; changes arrive when a log is switched and archived.",
    ),
    FormField(
        "lob_columns",
        "Large objects",
        kind="choice",
        required=False,
        keeps_secret=True,
        default=LobColumns.REFUSE,
        choices=(
            (LobColumns.REFUSE, "Refused (exclude their columns)"),
            (LobColumns.RESELECT, "Read again as of each commit"),
        ),
        help="CLOB, NCLOB, BLOB and XMLTYPE: the log has parts of such values only. Read again: by flashback query, "
        "from tables with a key. Experimental.",
    ),
    CONNECT_TIMEOUT,
)
