"""Settings that come from the environment, each with a default that works on one machine.

| variable | default |
|---|---|
| TIDEMARK_HOME | ./var |
| DATABASE_URL, REDIS_URL | the embedded servers below TIDEMARK_HOME |
| TIDEMARK_STAGING_URL | file:// TIDEMARK_HOME/staging |
| TIDEMARK_WAREHOUSE_URL | file:// TIDEMARK_HOME/warehouse |
| AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION, … | none: for locations on s3:// (docs/cluster.md) |
| TIDEMARK_LEASE_SECONDS | 6: how long a worker that is not heard of keeps its work |
| EMAIL_URL | none: alerts by e-mail are not sent |
| TIDEMARK_URL | none: alerts do not link to the pages |
| TIDEMARK_ALERT_NETWORKS | none: webhooks go to public addresses only |
| TIDEMARK_LAG_MINUTE_DAYS, …_HOUR_DAYS, …_DAY_DAYS | 3, 35, 400: how long lags are kept by minute, hour and day |
| TIDEMARK_LOG_FORMAT | json: one object a line on stdout; text: for eyes |
| TIDEMARK_METRICS_TOKEN | none: no /metrics; or TIDEMARK_METRICS_TOKEN_FILE, that holds it |
| TIDEMARK_OPENLINEAGE_URL, _TOKEN (or _TOKEN_FILE), _FILE | none: no OpenLineage events |
| TIDEMARK_SECRET_KEY | a key file in TIDEMARK_HOME, made at the first start, mode 600 |
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from webapp.embedded.ports import free_port, is_free

KEY_FILE = "secret.key"
SERVICES_FILE = "services.json"
PORTS_FILE = "ports.json"
STORE_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# A metadata database whose machine or network is gone is noticed after 20 s.  One that stands still answers for TCP: what waits for it
# is bounded by leases in workers, and in the web server by `webapp.serving`.
PEER_GONE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
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


def location(name: str, folder: Path, below: str, *, query: bool = False) -> str:
    """A storage URL from the environment, else a folder below the data folder.

    ValueError for one with credentials in it: it stands in logs, on Spark's pages and in lineage (invariant 8), and a store's
    credentials have variables of their own; and for one with a query where that is not allowed.
    """
    value = os.environ.get(name) or (folder / below).as_uri()
    parts = urlsplit(value)
    if "@" in parts.netloc or {key for key, _ in parse_qsl(parts.query)} & {"access_key", "secret_key"}:
        message = f"{name} must not hold credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead."
        raise ValueError(message)
    if parts.query and not query:
        message = f"{name} must have nothing after a question mark: a store's address is set by AWS_ENDPOINT_URL."
        raise ValueError(message)
    return value


def store_endpoint() -> str:
    """Address of an S3 store that is not Amazon's; empty where none is set."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def store_region() -> str:
    """The S3 store's."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def store_secrets() -> tuple[str, ...]:
    """What must be in no log and on no page, of a store's credentials."""
    return tuple(value for name in STORE_SECRETS if (value := os.environ.get(name)))


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
        "OPTIONS": {"connect_timeout": 5, "application_name": "tidemark", **PEER_GONE, **query},
    }


def names(value: str) -> list[str]:
    """Comma-separated."""
    return [name.strip() for name in value.split(",") if name.strip()]


def at_least(name: str, default: float, *, least: float, unit: str = "seconds") -> float:
    """A number of `unit`; ValueError for one below `least`."""
    value = float(os.environ.get(name) or default)
    if not value >= least:
        message = f"{name} must be at least {least:g} {unit}."
        raise ValueError(message)
    return value


def secret(name: str) -> str:
    """The variable, or the content of the file that NAME_FILE names; empty for neither.  ValueError where the file cannot be read."""
    if value := os.environ.get(name):
        return value
    if not (path := os.environ.get(f"{name}_FILE")):
        return ""
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        message = f"{name}_FILE cannot be read: {error.strerror}."
        raise ValueError(message) from None


def http_url(name: str) -> str:
    """Empty where the variable is not set; ValueError for what is no http or https URL."""
    value = os.environ.get(name, "")
    parts = urlsplit(value)
    if value and (parts.scheme not in {"http", "https"} or not parts.hostname):
        message = f"{name} must be an http:// or https:// URL."
        raise ValueError(message)
    return value


def one_of(name: str, choices: tuple[str, ...]) -> str:
    """The first one where the variable is not set; ValueError for a word that is none of them."""
    value = os.environ.get(name) or choices[0]
    if value not in choices:
        message = f"{name} must be one of {', '.join(choices)}."
        raise ValueError(message)
    return value


def mapping(name: str) -> dict[str, str]:
    """A JSON object of texts; ValueError for anything else."""
    value = json.loads(os.environ.get(name) or "{}")
    if not isinstance(value, dict):
        message = f"{name} must be a JSON object."
        raise ValueError(message)  # noqa: TRY004 - like every other wrong value
    return {str(key): str(item) for key, item in value.items()}


def networks(name: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Comma-separated networks or addresses; ValueError for anything else."""
    return tuple(ipaddress.ip_network(one, strict=False) for one in names(os.environ.get(name, "")))


@dataclass(frozen=True)
class Mail:
    """A mail server; no host where there is none."""

    host: str = ""
    port: int = 25
    user: str = ""
    password: str = field(default="", repr=False)
    tls: str = "none"
    sender: str = "tidemark@localhost"


def mail(url: str) -> Mail:
    """From an smtp:// URL; ValueError, without the URL in it, for anything else."""
    if not url:
        return Mail()
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    tls = query.get("tls", "starttls")
    if parts.scheme != "smtp" or not parts.hostname or tls not in {"starttls", "implicit", "none"}:
        message = "EMAIL_URL must be smtp://[user:password@]host[:port]?tls=starttls|implicit|none&from=address"
        raise ValueError(message)
    return Mail(
        host=parts.hostname,
        port=parts.port or {"starttls": 587, "implicit": 465}.get(tls, 25),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=tls,
        sender=query.get("from", f"tidemark@{parts.hostname}"),
    )
