"""How a connection's stored settings reach the server."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from replicator.verification.model import SourceConfig

DEFAULT_PORT = 5432
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def source_config(settings: Mapping[str, Any]) -> SourceConfig:
    """Of a connection's settings, with its password."""
    mode, authority = settings.get("tls") or "prefer", settings.get("ca") or ""
    return SourceConfig(
        settings["host"],
        int(settings.get("port") or DEFAULT_PORT),
        settings["user"],
        settings.get("password") or "",
        _tls(mode, authority),
        database=settings.get("database") or settings["user"],
        ca=authority,
        verified=mode == "verify-full" or (mode == "verify-ca" and bool(authority)),
    )


def _tls(mode: str, authority: str) -> dict[str, Any]:
    """As libpq has it, whose default place for the authorities is in the user's home."""
    options = {"sslmode": mode, "gssencmode": "disable"}
    if mode.startswith("verify") and not authority:
        own = ssl.get_default_verify_paths().cafile
        options["sslrootcert"] = own or next((file for file in BUNDLES if Path(file).exists()), "system")
    return options
