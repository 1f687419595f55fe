"""Hosts that users enter: which ones are accepted, and the addresses that they resolve to.

Link-local addresses, where clouds have their metadata services, are refused in every form: as an IPv4 address inside
an IPv6 one, as a single number, or behind a name.  A name is resolved once, and the connection goes to that result.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator
from functools import lru_cache

from replicator.errors import ConfigurationError

MAX_HOST_LENGTH = 253
MAX_PORTS = 65535
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_METADATA = (ipaddress.IPv6Address("fd00:ec2::254"),)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def forms_of(address: Address) -> Iterator[Address]:
    """The address, and those that it stands for."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        inside = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64 or int(address) >> 32 == 0:
            inside = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inside is not None:
            yield inside


def is_link_local(address: Address) -> bool:
    """169.254.0.0/16 and fe80::/10 in any form, and the one metadata service that is elsewhere."""
    return any(one.is_link_local or one in _METADATA for one in forms_of(address))


def checked_host(host: str) -> str:
    """A name or an address as it is; ConfigurationError for a socket's path, a link-local address, or what is
    neither.
    """
    host = host.strip()
    if not host or len(host) > MAX_HOST_LENGTH:
        raise ConfigurationError(f"The host must have 1 to {MAX_HOST_LENGTH} characters, not {len(host)}.")
    if host.startswith(("/", "@")):
        raise ConfigurationError("The host must be a name or an address, not a socket.", remedy="Connect over TCP.")
    if (address := _literal(host)) is not None:
        _refuse_link_local(host, [address])
        return host
    try:
        labels = host.removesuffix(".").encode("idna").decode().split(".")
    except UnicodeError:
        labels = []
    if not labels or not all(_LABEL.fullmatch(label) for label in labels):
        shown = host if host.isprintable() else ascii(host)
        raise ConfigurationError(f"The host {shown} is neither a host name nor an address.")
    return host


def checked_servers(servers: str) -> str:
    """`host:port` or `[address]:port`, separated by commas, without the blanks between; ConfigurationError as
    `checked_host`.
    """
    found = [one.strip() for one in servers.split(",") if one.strip()]
    for server in found:
        host, port = host_and_port(server)
        checked_host(host)
        if not port.isascii() or not port.isdigit() or not 1 <= int(port[:6]) <= MAX_PORTS:
            raise ConfigurationError(f"The port of {server[:MAX_HOST_LENGTH]} must be a number from 1 to {MAX_PORTS}.")
    return ",".join(found)


def host_and_port(server: str, default: str = "9092") -> tuple[str, str]:
    """Of `host`, `host:port`, `[address]:port`."""
    if match := re.fullmatch(r"\[([^\]]*)\](?::(.*))?", server):
        return match[1], match[2] or default
    host, colon, port = server.rpartition(":")
    return (host, port) if colon else (server, default)


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host.  OSError where it is not known; ConfigurationError as `checked_host`, of any of them."""
    checked_host(host)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        message = f"unknown host name {host}"
        raise OSError(message) from None
    addresses = list(dict.fromkeys(str(entry[4][0]).split("%")[0] for entry in found))
    _refuse_link_local(host, [ipaddress.ip_address(one) for one in addresses])
    return addresses


@lru_cache(maxsize=64)
def checked_authority(pem: str) -> str:
    """Certificates in PEM form, trimmed; empty stays so.  ConfigurationError for anything else."""
    if pem := pem.strip():
        try:
            ssl.create_default_context(cadata=pem)
        except (ssl.SSLError, ValueError):
            raise ConfigurationError(
                "The CA certificate is not a PEM certificate.",
                remedy="Paste the file with the lines BEGIN CERTIFICATE and END CERTIFICATE, or leave it empty.",
            ) from None
    return pem


def _literal(host: str) -> Address | None:
    """Also what the system takes for an IPv4 address: 2852039166, 0xa9.254.1."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host)) if not re.search(r"\s", host) else None
    except (OSError, UnicodeError):
        return None


def _refuse_link_local(host: str, addresses: list[Address]) -> None:
    if any(is_link_local(address) for address in addresses):
        raise ConfigurationError(
            f"The host {host} is a link-local address, which is not allowed.",
            remedy="Enter the server's name, or its address in your network.",
        )
