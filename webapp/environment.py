"""Settings that come from the environment, each with a default that works on one machine.

| variable | default |
|---|---|
| TIDEMARK_HOME | ./var |
| DATABASE_URL, REDIS_URL, or DATABASE_URL_FILE, REDIS_URL_FILE | the embedded servers below TIDEMARK_HOME |
| TIDEMARK_SERVER_FOLDERS | /var/tmp: where root's embedded servers have their data if they cannot enter TIDEMARK_HOME |
| TIDEMARK_CATALOG_URL, or TIDEMARK_CATALOG_URL_FILE | a database beside that of DATABASE_URL, named …_catalog |
| TIDEMARK_STAGING_URL | file:// TIDEMARK_HOME/staging |
| TIDEMARK_WAREHOUSE_URL | file:// TIDEMARK_HOME/warehouse |
| AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION, … | none: for s3:// (docs/cluster.md) |
| TIDEMARK_LEASE_SECONDS | 6: how long a worker that is not heard of keeps its work |
| TIDEMARK_RETENTION_STEPS | 10m/1s 2h/1m 7d/1h: which snapshots of target tables stay |
| TIDEMARK_DELETION_GRACE_HOURS | 24: how long files of target tables stay that no snapshot needs |
| TIDEMARK_PROXIES | 0: how many of one's own proxies stand before the web server; each adds to X-Forwarded-For |
| EMAIL_URL | none: alerts by e-mail are not sent |
| TIDEMARK_URL | none: alerts do not link to the pages |
| TIDEMARK_ALERT_NETWORKS | none: webhooks go to public addresses only |
| TIDEMARK_LAG_MINUTE_DAYS, …_HOUR_DAYS, …_DAY_DAYS | 3, 35, 400: how long lags are kept by minute, hour and day |
| TIDEMARK_LOG_FORMAT | json: one object a line on stdout; text: for eyes |
| TIDEMARK_METRICS_TOKEN | none: no /metrics; or TIDEMARK_METRICS_TOKEN_FILE, that holds it |
| TIDEMARK_OPENLINEAGE_URL, _TOKEN (or _TOKEN_FILE), _FILE | none: no OpenLineage events |
| TIDEMARK_SECRET_KEY | a key file in TIDEMARK_HOME, made at the first start, mode 600 |
| TIDEMARK_SECRET_KEY_OLD | none: the key before, while it is changed (`manage.py rotate_key`) |
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from replicator.errors import ConfigurationError
from replicator.model.retention import GRACE_HOURS, STEPS, Retention
from webapp.embedded.ports import free_port, is_free

KEY_FILE = "secret.key"
OLD_KEY_FILE = "secret.key.old"
SERVICES_FILE = "services.json"
PORTS_FILE = "ports.json"
# A metadata database whose machine or network is gone is noticed after 20 s.  A frozen one still acknowledges TCP:
# leases bound the wait for it in workers, and `webapp.web.serving` in the web server.
PEER_GONE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
}
TRUE = frozenset({"1", "true", "yes", "on"})


def retention() -> tuple[str, float]:
    """TIDEMARK_RETENTION_STEPS and TIDEMARK_DELETION_GRACE_HOURS.  Raises ConfigurationError."""
    steps = os.environ.get("TIDEMARK_RETENTION_STEPS", "") or STEPS
    hours = at_least("TIDEMARK_DELETION_GRACE_HOURS", GRACE_HOURS, least=0)
    Retention.parse(steps, hours)
    return steps, hours


def flag(name: str, *, default: bool = False) -> bool:
    """1, true, yes and on are true."""
    value = os.environ.get(name)
    return default if value is None else value.strip().lower() in TRUE


def home() -> Path:
    """The data folder; absolute."""
    return Path(os.environ.get("TIDEMARK_HOME") or "var").resolve()


def keep_private(folder: Path, *locations: str) -> None:
    """Make new files of this process and its children private to their user, and so the data folder and local
    locations.

    Root's data folder can be traversed, not listed: its embedded Postgres runs as another user, in a subfolder.
    """
    os.umask(0o077)
    with suppress(OSError):  # read-only where nothing is kept in it
        folder.mkdir(parents=True, exist_ok=True)
        for item in folder.iterdir():
            _close(item, 0o700)
    _close(folder, 0o711 if os.geteuid() == 0 else 0o700)
    for url in locations:
        if (parts := urlsplit(url)).scheme == "file":
            place = Path(unquote(parts.path))
            with suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
            _close(place, 0o700)


def _close(path: Path, most: int) -> None:
    """Of what is ours, take away what is beyond `most`."""
    with suppress(OSError):
        found = path.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and mode & ~most:
            path.chmod(mode & most)


def secret_key(folder: Path) -> str:
    """TIDEMARK_SECRET_KEY, else the key file (made with mode 600; a race between processes has one winner)."""
    if value := os.environ.get("TIDEMARK_SECRET_KEY"):
        return value
    path = folder / KEY_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = _private(path, secrets.token_urlsafe(48))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()


def old_secret_keys(folder: Path) -> list[str]:
    """Keys that secrets may still be stored under, while the key is changed (`manage.py rotate_key`)."""
    try:
        kept = (folder / OLD_KEY_FILE).read_text().strip()
    except FileNotFoundError:
        kept = ""
    return [key for key in (os.environ.get("TIDEMARK_SECRET_KEY_OLD", ""), kept) if key]


def fresh_secret_key(folder: Path) -> str:
    """A new key in the key file, the old one kept beside it; the one that is there where a change is under way."""
    kept, present = folder / OLD_KEY_FILE, secret_key(folder)
    if not kept.exists() or kept.read_text().strip() == present:
        _private(kept, present).replace(kept)
        _private(folder / KEY_FILE, secrets.token_urlsafe(48)).replace(folder / KEY_FILE)
    return secret_key(folder)


def forget_old_secret_key(folder: Path) -> None:
    """The change is over."""
    (folder / OLD_KEY_FILE).unlink(missing_ok=True)


def _private(path: Path, text: str) -> Path:
    """A file beside `path` that only its owner may read, to be given its name."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    return fresh


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
    _private(path, json.dumps(dict(urls))).replace(path)  # they hold passwords


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
    """From the environment, or the file that NAME_FILE names, else from the embedded servers, else empty."""
    return secret(name) or embedded_services(folder).get(name, "")


def location(name: str, folder: Path, below: str, *, query: bool = False) -> str:
    """Return a storage URL from the environment, else a folder below the data folder.

    ValueError for a URL with credentials: it appears in logs, on Spark's pages and in lineage (invariant 8), and a
    store's credentials have separate variables.  ValueError also for a query where that is not allowed.
    """
    value = os.environ.get(name) or (folder / below).as_uri()
    parts = urlsplit(value)
    if "@" in parts.netloc or {key for key, _ in parse_qsl(parts.query)} & {"access_key", "secret_key"}:
        message = f"{name} must not contain credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead."
        raise ValueError(message)
    if parts.query and not query:
        message = f"{name} must not contain a query string. Set the store's address with AWS_ENDPOINT_URL."
        raise ValueError(message)
    return value


def bundles(warehouse: str) -> frozenset[str]:
    """Of jars, that a lakehouse needs in the store that this URL names."""
    return frozenset({"aws"}) if warehouse.startswith("s3://") else frozenset()


def store_endpoint() -> str:
    """Address of an S3 store that is not Amazon's; empty where none is set."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")


def store_region() -> str:
    """The S3 store's."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"


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


def with_database(url: str, name: str) -> str:
    """The same server and user, another database."""
    return urlsplit(url or "postgresql:///tidemark")._replace(path=f"/{quote(name, safe='')}").geturl()


def catalog_beside(url: str) -> str:
    """Return the default database of the lakehouse's catalog, beside the one of `url`."""
    return with_database(url, f"{database(url)['NAME']}_catalog")


def jdbc_url(url: str) -> str:
    """The same database for Java, with every option of the URL, and libpq's variables for TLS and login, under the
    driver's names.

    User and password go elsewhere.  ConfigurationError for what the driver cannot hold: dropped, it would hold in half
    of Tidemark only.
    """
    found = database(url)
    hosts = (found["HOST"] or "localhost").split(",")
    if any(host.startswith(("/", "@")) for host in hosts):
        raise ConfigurationError(
            "DATABASE_URL names a socket, but Java reaches the database over TCP only.", remedy=_OTHER_URL
        )
    ports = (found["PORT"] or "5432").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1
    at = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)
    )
    given = {name: value for name, variable in _LIBPQ_VARIABLES.items() if (value := os.environ.get(variable))}
    given |= {name: value for name, value in parse_qsl(urlsplit(url).query) if name not in {"host", "port"}}
    options = "&".join(
        f"{name}={quote(value, safe='.-')}" for option in given.items() for name, value in [_for_java(*option)] if name
    )
    return f"jdbc:postgresql://{at}/{quote(found['NAME'], safe='')}{'?' if options else ''}{options}"


_OTHER_URL = "Change DATABASE_URL."
_LIBPQ_VARIABLES = {
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "channel_binding": "PGCHANNELBINDING",
    "require_auth": "PGREQUIREAUTH",
}
# https://www.postgresql.org/docs/current/libpq-connect.html → https://jdbc.postgresql.org/documentation/use/
_JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslnegotiation": "sslNegotiation",
    "channel_binding": "channelBinding",
    "require_auth": "requireAuth",
    "gssencmode": "gssEncMode",
    "krbsrvname": "kerberosServerName",
    "connect_timeout": "connectTimeout",
    "application_name": "ApplicationName",
    "options": "options",
    "target_session_attrs": "targetServerType",
    "keepalives": "tcpKeepAlive",
    "load_balance_hosts": "loadBalanceHosts",
}
_JDBC_VALUES = {
    "target_session_attrs": {
        "any": "any", "read-write": "primary", "primary": "primary", "read-only": "secondary", "standby": "secondary",
        "prefer-standby": "preferSecondary",
    },
    "keepalives": {"0": "false", "1": "true"},
    "load_balance_hosts": {"disable": "false", "random": "true"},
}  # fmt: skip
# Detection of a dead peer, and what the driver does by default: dropping these makes nothing less safe.
_WITHOUT_JDBC = frozenset({
    "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "client_encoding",
    "fallback_application_name",
    "sslcompression", "sslsni",
})  # fmt: skip


def _for_java(name: str, value: str) -> tuple[str, str]:
    """The driver's name and value; no name for what it needs none of."""
    if name in _WITHOUT_JDBC:
        return "", ""
    if (name, value) == ("sslrootcert", "system"):
        return "sslfactory", "org.postgresql.ssl.DefaultJavaSSLFactory"
    values = _JDBC_VALUES.get(name)
    if name not in _JDBC_NAMES or (values is not None and value not in values):
        raise ConfigurationError(
            f"DATABASE_URL has {name}, which Java's driver does not support as given.", remedy=_OTHER_URL
        )
    return _JDBC_NAMES[name], values[value] if values else value


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
    """The variable, or the content of the file that NAME_FILE names; empty for neither.

    ValueError where the file cannot be read.
    """
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
    """Return the variable, empty where it is not set; ValueError for anything but an http or https URL."""
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
    if parts.password and tls == "none":
        message = (
            "EMAIL_URL with tls=none would send the password in clear: use tls=starttls or tls=implicit, or no"
            " password."
        )
        raise ValueError(message)
    return Mail(
        host=parts.hostname,
        port=parts.port or {"starttls": 587, "implicit": 465}.get(tls, 25),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        tls=tls,
        sender=query.get("from", f"tidemark@{parts.hostname}"),
    )
