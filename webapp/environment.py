"""Settings that come from the environment, each with a default that works on one machine.

| variable | default |
|---|---|
| TIDEMARK_HOME | ./var |
| DATABASE_URL, REDIS_URL | the embedded servers below TIDEMARK_HOME |
| TIDEMARK_STAGING_URL | file:// TIDEMARK_HOME/staging |
| TIDEMARK_WAREHOUSE_URL | file:// TIDEMARK_HOME/warehouse |
| TIDEMARK_LEASE_SECONDS | 10: how long a worker that is not heard of keeps its work |
| TIDEMARK_SECRET_KEY | a key file in TIDEMARK_HOME, made at the first start, mode 600 |
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from webapp.embedded.ports import free_port, is_free

KEY_FILE = "secret.key"
SERVICES_FILE = "services.json"
PORTS_FILE = "ports.json"
TRUE = frozenset({"1", "true", "yes", "on"})


def flag(name: str, *, default: bool = False) -> bool:
    """1, true, yes and on are true."""
    value = os.environ.get(name)
    return default if value is None else value.strip().lower() in TRUE


def home() -> Path:
    """The data folder; absolute."""
    return Path(os.environ.get("TIDEMARK_HOME") or "var").resolve()


def secret_key(folder: Path) -> str:
    """TIDEMARK_SECRET_KEY, else the key file (made with mode 600; a race between processes has one winner)."""
    if value := os.environ.get("TIDEMARK_SECRET_KEY"):
        return value
    path = folder / KEY_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{KEY_FILE}.{os.getpid()}.{secrets.token_hex(4)}"
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(48))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()


def embedded_services(folder: Path) -> dict[str, str]:
    """URLs of embedded servers that `up` started: {"DATABASE_URL": …, "REDIS_URL": …}; empty where there are none."""
    try:
        return dict(json.loads((folder / SERVICES_FILE).read_text()))
    except (OSError, ValueError):
        return {}


def publish_services(folder: Path, urls: Mapping[str, str]) -> None:
    """Tell other processes where the embedded servers are; nothing: they are gone."""
    path = folder / SERVICES_FILE
    if not urls:
        path.unlink(missing_ok=True)
        return
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(mode=0o600)  # they hold passwords
    fresh.write_text(json.dumps(dict(urls)))
    fresh.replace(path)


def kept_port(folder: Path, name: str) -> int:
    """The port that an embedded server had last time, if it is free; else another one, kept from now on."""
    path = folder / PORTS_FILE
    try:
        ports = dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        ports = {}
    port = int(ports.get(name, 0))
    if not port or not is_free(port):
        port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(ports | {name: port}))
    return port


def service_url(name: str, folder: Path) -> str:
    """From the environment, else from the embedded servers, else empty."""
    return os.environ.get(name) or embedded_services(folder).get(name, "")


def location(name: str, folder: Path, below: str) -> str:
    """A storage URL from the environment, else a folder below the data folder."""
    return os.environ.get(name) or (folder / below).as_uri()


def database(url: str) -> dict[str, Any]:
    """Django's form of a Postgres URL; ValueError for any other."""
    parts = urlsplit(url or "postgresql:///tidemark")
    if parts.scheme not in {"postgres", "postgresql"}:
        message = f"DATABASE_URL must be a postgresql:// URL, not {parts.scheme}://"
        raise ValueError(message)
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": str(parts.port or query.pop("port", "")),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, "application_name": "tidemark", **query},
    }


def names(value: str) -> list[str]:
    """Comma-separated."""
    return [name.strip() for name in value.split(",") if name.strip()]


def at_least(name: str, default: float, *, least: float) -> float:
    """A number of seconds; ValueError for one below `least`."""
    value = float(os.environ.get(name) or default)
    if not value >= least:
        message = f"{name} must be at least {least:g} seconds."
        raise ValueError(message)
    return value


def mapping(name: str) -> dict[str, str]:
    """A JSON object of texts; ValueError for anything else."""
    value = json.loads(os.environ.get(name) or "{}")
    if not isinstance(value, dict):
        message = f"{name} must be a JSON object."
        raise ValueError(message)  # noqa: TRY004 - like every other wrong value
    return {str(key): str(item) for key, item in value.items()}
