"""`python -m testing.servers.oracle.server PORT TLS_PORT FOLDER LOG_BYTES`; the environment has DSN and password."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import socket
import ssl
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from testing.servers.oracle.engine.catalog import User
from testing.servers.oracle.engine.database import Database
from testing.servers.oracle.engine.errors import OracleError
from testing.servers.oracle.engine.interpreter import Interpreter
from testing.servers.oracle.server.embedded import DSN, PASSWORD, ROOT_SERVICE, SERVICE, TLS
from testing.servers.oracle.wire import handshake
from testing.servers.oracle.wire.calls import Calls
from testing.servers.oracle.wire.packets import DATA, Channel, Gone, Writer
from webapp.embedded.ports import LOOPBACK

CONNECTIONS = itertools.count(10)


def serve(database: Database, client: socket.socket) -> None:
    """One connection, from its first packet to its end."""
    channel = Channel(client)
    number = next(CONNECTIONS)
    with client, suppress(Gone):
        service = handshake.accept(channel, {one.lower(): one for one in (SERVICE, ROOT_SERVICE)})
        facts = {
            "AUTH_SESSION_ID": str(number), "AUTH_SERIAL_NUM": "1", "AUTH_SC_DBUNIQUE_NAME": "ORCL",
            "AUTH_SC_REAL_DBUNIQUE_NAME": "ORCL", "AUTH_SC_SERVICE_NAME": service, "AUTH_INSTANCENAME": "orcl",
            "AUTH_MAX_OPEN_CURSORS": "300", "AUTH_MAX_IDEN_LENGTH": "128",
        }  # fmt: skip
        try:
            users = database.catalog.users
            passwords = {name: user.password for name, user in users.items()}
            national = database.catalog.parameters.get("nls_nchar_characterset", "AL16UTF16")
            login = handshake.log_in(channel, passwords, facts, lambda name: _check(users[name]), national)
            session = Interpreter(database, users[login.user], service, login.time_zone, number, login.program)
        except OracleError as error:
            channel.send(DATA, refusal(error))
            return
        try:
            Calls(channel, session).serve()
        except Exception:  # noqa: BLE001 - of the emulator itself: its log says where, the client sees the connection end
            traceback.print_exc()
        finally:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            session.close()


def _check(user: User) -> None:
    if not user.has("CREATE SESSION"):
        raise OracleError(1045, user.name)


def refusal(error: OracleError) -> Writer:
    """Before there is a session."""
    answer = Writer().u8(handshake.ERROR).integer(0, 0, 0, error.number, 0, 0, 0, 0).u8(0, 0, 0, 0, 0, 0)
    answer.integer(0, 0).u8(0).integer(0, 0, 0).u8(0, 0).integer(0, 0, 0, 0, 0, 0, error.number, 0)
    return answer.sized(error.message.encode())


def _secured(database: Database, client: socket.socket, context: ssl.SSLContext) -> None:
    with client, suppress(OSError):
        serve(database, context.wrap_socket(client, server_side=True))


def _listen_in_tls(database: Database, port: int, context: ssl.SSLContext) -> None:
    with socket.create_server((LOOPBACK, port)) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_secured, args=(database, client, context), daemon=True).start()


def main(port: int, tls_port: int, folder: Path, log_bytes: int) -> None:
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as a power cut: what is written is written
    database = Database(folder, os.environ[DSN], os.environ[PASSWORD], log_bytes)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder.parent / TLS)
    threading.Thread(target=_listen_in_tls, args=(database, tls_port, context), daemon=True).start()
    with socket.create_server((LOOPBACK, port), backlog=100) as listener:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(database, client), daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
