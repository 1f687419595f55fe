"""Logins that show the password to no server that TLS has not verified (invariant 8).

The server chooses the login method, and some methods send the password itself.  Over an unverified connection, an
attacker could request one of them.  Hashes and SCRAM proofs are sent to any server;
https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
"""

from __future__ import annotations

import socket
import ssl
from functools import cache
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql import _auth
from pymysql.constants import CR

from replicator.addresses import resolved

if TYPE_CHECKING:
    _Connection = pymysql.connections.Connection[Any]
else:
    _Connection = pymysql.connections.Connection

REMEDY = (
    "Set TLS to a mode that checks the certificate and paste the server's CA certificate (MySQL: ca.pem in its data"
    " directory); or give the account an authentication method that does not send the password."
)
LIBPQ_OPTIONS = {"require_auth": "!password"}  # of libpq 16 and later: any method but AuthenticationCleartextPassword
LIBPQ_REFUSAL = "server requested a cleartext password"
_SHOWN = (
    "mysql_clear_password",
    "dialog",
    "sha256_password",
    "mysql_old_password",
)  # the last is a hash that is undone at once
_REMEMBERED, _FULL = 3, 4


@cache
def unverified_context() -> ssl.SSLContext:
    """Return a TLS context that accepts any server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class ClearTextRefused(pymysql.err.OperationalError):
    """The server asked for the password itself."""

    def __init__(self, plugin: str) -> None:
        text = f"the server requests the password in clear text ({plugin}), and is not verified by TLS"
        super().__init__(CR.CR_AUTH_PLUGIN_ERR, text)


class WaryConnection(_Connection):
    """A pymysql connection for servers that are not verified.  remembered: the login passed as the server had the
    password in memory.
    """

    remembered = False
    _auth_plugin_name: str

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        """Shared: pymysql loads the system's certificates for each connection (20 ms) even where it verifies none."""
        return super()._create_ssl_ctx(sslp) if sslp else unverified_context()  # type: ignore[misc]

    def _get_server_information(self) -> None:
        super()._get_server_information()  # type: ignore[misc]
        if self._auth_plugin_name == "sha256_password":  # answered in clear with the very first packet
            raise ClearTextRefused(self._auth_plugin_name)


class _Refusal:
    """As pymysql's auth_plugin_map wants it."""

    plugin = ""

    def __init__(self, connection: WaryConnection) -> None:
        self._connection = connection

    def authenticate(self, packet: Any) -> Any:
        """Never."""
        del packet
        raise ClearTextRefused(self.plugin)


class _RememberedOnly(_Refusal):
    """caching_sha2_password without its full form, which sends the password (over no TLS, under a key that the server
    itself names).
    """

    plugin = "caching_sha2_password"

    def authenticate(self, packet: Any) -> Any:
        """One step: the proof, or what the server makes of it."""
        connection: Any = self._connection
        if packet.is_extra_auth_data():
            step = packet.get_all_data()[1]
            if step == _FULL and connection.password:
                raise ClearTextRefused(self.plugin)
            if step == _FULL:
                connection.write_packet(b"")
            connection.remembered = step == _REMEMBERED
        else:
            connection.salt = packet.read_all().removesuffix(b"\0")
            connection.write_packet(_auth.scramble_caching_sha2(connection.password, connection.salt))
        answer = connection._read_packet()  # noqa: SLF001 - pymysql has no public way
        answer.check_error()
        return answer


_MAP = {name: type(f"Refusal_{name}", (_Refusal,), {"plugin": name}) for name in _SHOWN} | {
    _RememberedOnly.plugin: _RememberedOnly
}


def connect_mysql(
    *, verified: bool, host: str, port: int, connect_timeout: float, **options: Any
) -> pymysql.connections.Connection[Any]:
    """`pymysql.connect`, to what `resolved` says of the host.  verified: TLS has the certificate checked.

    Raises what these do, and ClearTextRefused.
    """
    wary = {} if verified else {"auth_plugin_map": _MAP}
    made = pymysql.connections.Connection if verified else WaryConnection
    connection = made(host=host, port=port, connect_timeout=connect_timeout, defer_connect=True, **{**options, **wary})
    connection.connect(_socket(host, port, connect_timeout))
    return connection


def _socket(host: str, port: int, seconds: float) -> socket.socket:
    """To the first address that answers, with the options that pymysql sets."""
    failed: OSError | None = None
    for address in resolved(host, port):
        try:
            found = socket.create_connection((address, port), seconds)
        except OSError as error:
            failed = error
            continue
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return found
    message = f"Can't connect to MySQL server on '{host}' ({failed})"
    raise pymysql.err.OperationalError(CR.CR_CONN_HOST_ERROR, message)


def libpq_address(host: str, port: int) -> dict[str, Any]:
    """Host and hostaddr for libpq, which then asks no DNS: to each of the addresses in turn, under the name that TLS
    verifies.

    Raises as `resolved` does.
    """
    addresses = resolved(host, port)
    return {"host": ",".join([host] * len(addresses)), "hostaddr": ",".join(addresses), "port": port}
