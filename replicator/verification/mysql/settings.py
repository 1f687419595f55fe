"""How a connection's stored settings reach the server."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from replicator.clear_text import unverified_context
from replicator.verification.model import SourceConfig

DEFAULT_PORT = 3306


def source_config(settings: Mapping[str, Any]) -> SourceConfig:
    """Of a connection's settings, with its password."""
    mode, authority = settings.get("tls") or "preferred", settings.get("ca") or ""
    return SourceConfig(
        settings["host"],
        int(settings.get("port") or DEFAULT_PORT),
        settings["user"],
        settings.get("password") or "",
        _tls(mode, authority),
        verified=mode == "verify_identity" or (mode == "verify_ca" and bool(authority)),
    )


def _tls(mode: str, authority: str) -> dict[str, Any]:
    """Return pymysql's TLS options; without any, it prefers TLS."""
    if mode in {"disabled", "preferred"}:
        return {"ssl_disabled": True} if mode == "disabled" else {}
    if mode == "required":
        return {"ssl": unverified_context()}
    context = ssl.create_default_context(cadata=authority or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the servers' self-made certificates break it
    context.check_hostname = mode == "verify_identity"
    return {"ssl": context}
