"""Settings of a connection: how a form's values become a configuration's, and the fields that every server's form
has.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from replicator.errors import ConfigurationError
from replicator.sources.base import FormField

E = TypeVar("E", bound=StrEnum)
CONNECT_SECONDS = 10
PASSWORD = FormField("password", "Password", kind="password", required=False, secret=True)
CA = FormField("ca", "CA certificate (PEM)", kind="textarea", required=False, help="Empty: the system's authorities.")
CONNECT_TIMEOUT = FormField(
    "connect_timeout",
    "Connect timeout (s)",
    kind="number",
    required=False,
    default=str(CONNECT_SECONDS),
    keeps_secret=True,
)


def text(settings: Mapping[str, Any], name: str) -> str:
    """Without white space around it; empty where there is none."""
    return str(settings.get(name) or "").strip()


def host_of(settings: Mapping[str, Any]) -> str:
    """ConfigurationError where there is none; nothing else is checked."""
    host = text(settings, "host")
    if not host:
        raise ConfigurationError("The connection has no host.")
    return host


def number(settings: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """Return the number, None if it is not set; ConfigurationError if it is not a number from `low` to `high`."""
    value = settings.get(name)
    if value is None or value == "":
        return None
    try:
        found = int(value)
    except (TypeError, ValueError):
        found = low - 1
    if not low <= found <= high:
        message = f"{name} is not a number from {low} to {high}."
        raise ConfigurationError(message)
    return found


def one_of(kind: type[E], settings: Mapping[str, Any], name: str, default: E) -> E:
    """ConfigurationError for what is none of them."""
    value = text(settings, name) or default.value
    try:
        return kind(value)
    except ValueError:
        message = f"{name} is {value!r}; it must be one of: {', '.join(kind)}."
        raise ConfigurationError(message) from None


def tls_field(default: StrEnum, off: StrEnum, required: StrEnum, authority: StrEnum, identity: StrEnum) -> FormField:
    """The five modes of TLS, in the server's own words for them."""
    return FormField(
        "tls",
        "TLS",
        kind="choice",
        default=default,
        choices=(
            (off, "Off"),
            (default, "If the server offers it"),
            (required, "Always, any certificate"),
            (authority, "Always, certificate checked"),
            (identity, "Always, certificate and host name checked"),
        ),
    )
