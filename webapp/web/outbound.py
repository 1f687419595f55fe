"""HTTP requests to addresses that users typed: only to where they may go (server-side request forgery).

Allowed: http and https, to public addresses, and to the networks that the operator names in TIDEMARK_ALERT_NETWORKS.
Every other one is refused: loopback, private, multicast, reserved, and in any case link-local (the clouds' metadata
services among them).  The name is resolved once and the connection goes to that very address, so that a second answer
of the DNS changes nothing.  Redirects are not followed, proxies of the environment are not used, certificates are
checked, and of the answer only the status is read.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import SplitResult, urlsplit

from replicator.addresses import Address, forms_of, is_link_local
from replicator.errors import ConfigurationError

SECONDS = 10.0
PORTS = {"http": 80, "https": 443}
MAX_URL_LENGTH = 2000
WHOLE_SECONDS = 20.0  # a server that answers a byte at a time is cut off
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class NotSentError(Exception):
    """Why, without the address: that is a secret.  lasting: another attempt would end the same way."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        """`reason` for people."""
        super().__init__(reason)
        self.reason, self.lasting = reason, lasting


def checked_url(url: str) -> SplitResult:
    """ConfigurationError, without the URL in it, for one that cannot be asked."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError("The address is not a URL.") from None
    if parts.scheme not in PORTS or not parts.hostname or port == 0 or len(url) > MAX_URL_LENGTH:
        raise ConfigurationError("The address must be a URL that starts with https:// or http:// and contains a host.")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("The address must not contain a user name or password.")
    if not url.isascii() or any(character <= " " for character in url):
        raise ConfigurationError("The address must not contain spaces or non-ASCII characters; escape them.")
    return parts


def allowed(address: Address, also: Sequence[Network]) -> bool:
    """May a message go there?"""
    if is_link_local(address) or not all(allowed(inside, also) for inside in forms_of(address) if inside != address):
        return False
    if any(address in network for network in also if network.version == address.version):
        return True
    return address.is_global and not address.is_multicast


def post(url: str, body: bytes, headers: Mapping[str, str], *, also: Sequence[Network] = ()) -> None:
    """NotSentError unless the answer is 2xx."""
    try:
        parts = checked_url(url)
    except ConfigurationError as error:
        raise NotSentError(error.message, lasting=True) from None
    host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
    address = _resolved(host, port, also)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    connection.default_port = PORTS[parts.scheme]
    try:
        connection.sock = _connected(address, port, host if parts.scheme == "https" else None)
        with _cut_off(connection.sock):
            connection.request("POST", path, body, {**headers, "User-Agent": "Tidemark", "Connection": "close"})
            status = connection.getresponse().status
    except ssl.SSLCertVerificationError:
        raise NotSentError("The certificate of the server is not valid for its name.") from None
    except (OSError, http.client.HTTPException) as error:
        raise NotSentError(f"The server did not respond ({type(error).__name__}).") from None
    finally:
        connection.close()
    _judge(status)


@contextmanager
def _cut_off(sock: socket.socket) -> Iterator[None]:
    def cut() -> None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(WHOLE_SECONDS, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _judge(status: int) -> None:
    if 200 <= status < 300:  # noqa: PLR2004 - what HTTP calls success
        return
    if 300 <= status < 400:  # noqa: PLR2004 - and a redirect
        raise NotSentError(f"The server answered with a redirect ({status}), which is not followed.", lasting=True)
    busy = status in {408, 425, 429} or status >= 500  # noqa: PLR2004
    raise NotSentError(f"The server answered with HTTP {status}.", lasting=not busy)


def _resolved(host: str, port: int, also: Sequence[Network]) -> str:
    """The first address; refused where any of them is not allowed."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise NotSentError("The host name could not be resolved.") from None
    addresses = [str(entry[4][0]).split("%")[0] for entry in found]
    if not addresses or not all(allowed(ipaddress.ip_address(one), also) for one in addresses):
        raise NotSentError(
            "The server's address is not public. To allow its network, set TIDEMARK_ALERT_NETWORKS.",
            lasting=True,
        )
    return addresses[0]


def _connected(address: str, port: int, tls_name: str | None) -> socket.socket:
    plain = socket.create_connection((address, port), SECONDS)
    if tls_name is None:
        return plain
    try:
        return ssl.create_default_context().wrap_socket(plain, server_hostname=tls_name)
    except BaseException:
        plain.close()
        raise
