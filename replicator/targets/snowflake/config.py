"""A destination's settings: which account, as whom, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from replicator.addresses import checked_host
from replicator.errors import ConfigurationError
from replicator.sources.base import FormField
from replicator.sources.shared.settings import CONNECT_SECONDS, CONNECT_TIMEOUT, number, one_of, text

DOMAIN = "snowflakecomputing.com"
COMMIT_SECONDS = 60
MAX_COMMIT_SECONDS = 3600
_ACCOUNT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,200}")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Authentication(StrEnum):
    """How the user proves who it is."""

    KEY_PAIR = "key_pair"
    OAUTH = "oauth"
    PASSWORD = "password"  # noqa: S105 - the name of a way


def _by(way: Authentication) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (("authentication", (way.value,)),)


DESTINATION_FORM = (
    FormField("account", "Account identifier", help="organization-account, such as MYORG-PROD."),
    FormField(
        "host", "Host", required=False,
        help=f"Of a private link or a proxy. Empty: <account>.{DOMAIN}. An address that begins with http:// is taken"
        " of this machine only.",
    ),
    FormField("user", "User"),
    FormField(
        "authentication", "Authentication", "choice", default=Authentication.KEY_PAIR, main=True,
        choices=(
            (Authentication.KEY_PAIR, "Key pair"), (Authentication.OAUTH, "OAuth access token"),
            (Authentication.PASSWORD, "Password or programmatic access token"),
        ),
    ),
    FormField(
        "private_key", "Private key (PEM, PKCS #8)", "textarea", secret=True, when=_by(Authentication.KEY_PAIR),
        help="ALTER USER … SET RSA_PUBLIC_KEY makes its public half known.",
    ),
    FormField(
        "private_key_passphrase", "Passphrase of the key", "password", required=False, secret=True,
        when=_by(Authentication.KEY_PAIR),
    ),
    FormField("token", "Access token", "password", secret=True, when=_by(Authentication.OAUTH)),
    FormField("password", "Password", "password", secret=True, when=_by(Authentication.PASSWORD)),
    FormField("role", "Role", required=False, main=True, keeps_secret=True, help="Empty: the user’s default role."),
    FormField(
        "warehouse", "Warehouse", required=False, main=True, keeps_secret=True,
        help="X-Small is enough for most. Let it suspend itself after 60 s: while it runs, it is billed by the second."
        " Empty: the user’s default warehouse.",
    ),
    FormField(
        "database", "Database", keeps_secret=True, help="It must exist. Each source database becomes a schema of it.",
    ),
    FormField(
        "commit_seconds", "Seconds between commits", "number", required=False, default=str(COMMIT_SECONDS),
        keeps_secret=True, main=True,
        help="Of one table, at least. Each commit keeps the warehouse awake: 60 to 300 s save most of its cost."
        " 0: as soon as changes come.",
    ),
    CONNECT_TIMEOUT,
)  # fmt: skip


@dataclass(frozen=True)
class SnowflakeDestination:
    """address: host, port and protocol; credentials: what the vendor's client is given besides."""

    account: str
    protocol: str
    host: str
    port: int
    user: str
    authentication: Authentication
    database: str
    role: str = ""
    warehouse: str = ""
    private_key: str = field(default="", repr=False)
    passphrase: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    commit_seconds: int = COMMIT_SECONDS
    connect_timeout: int = CONNECT_SECONDS

    @property
    def where(self) -> str:
        """For messages."""
        return f"Snowflake account {self.account}"


def destination(settings: Mapping[str, Any]) -> SnowflakeDestination:
    """What a destination's settings say.  Raises ConfigurationError."""
    account, user, database = (text(settings, name) for name in ("account", "user", "database"))
    for name, value in (("account", account), ("user", user), ("database", database)):
        if not value:
            raise ConfigurationError(f"The destination has no {name}.")
    if not _ACCOUNT.fullmatch(account):
        raise ConfigurationError(f"account is {account!r}; it must be an account identifier, such as MYORG-PROD.")
    protocol, host, port = _address(text(settings, "host"), account)
    seconds = number(settings, "commit_seconds", 0, MAX_COMMIT_SECONDS)
    timeout = number(settings, "connect_timeout", 1, 3600)
    made = SnowflakeDestination(
        account, protocol, host, port, user,
        one_of(Authentication, settings, "authentication", Authentication.KEY_PAIR),
        database, text(settings, "role"), text(settings, "warehouse"),
        private_key=text(settings, "private_key"),
        passphrase=str(settings.get("private_key_passphrase") or ""),
        token=text(settings, "token"),
        password=str(settings.get("password") or ""),
        commit_seconds=COMMIT_SECONDS if seconds is None else seconds,
        connect_timeout=CONNECT_SECONDS if timeout is None else timeout,
    )  # fmt: skip
    needed = {
        Authentication.KEY_PAIR: ("private_key", made.private_key), Authentication.OAUTH: ("token", made.token),
        Authentication.PASSWORD: ("password", made.password),
    }  # fmt: skip
    name, value = needed[made.authentication]
    if not value:
        raise ConfigurationError(f"The destination has no {name}.")
    return made


def _address(host: str, account: str) -> tuple[str, str, int]:
    """Secrets go over TLS, or stay on this machine."""
    if not host:
        return "https", f"{account.lower().replace('_', '-')}.{DOMAIN}", 443
    parts = urlsplit(host if "//" in host else f"https://{host}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    plain = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not parts.hostname or port == -1 or parts.path not in ("", "/") or not (parts.scheme == "https" or plain):
        raise ConfigurationError(
            f"host is {host!r}; it must be a host name.", remedy="http:// is taken for this machine only."
        )
    checked_host(parts.hostname)
    return parts.scheme, parts.hostname, port or (80 if plain else 443)


def place(settings: Mapping[str, Any]) -> str:
    """Where a destination is, without secrets; empty for settings that lead nowhere."""
    account, database = text(settings, "account"), text(settings, "database")
    return f"{(text(settings, 'host') or account).lower()}/{database}" if account and database else ""
