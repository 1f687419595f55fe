"""Where webhooks may go."""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from replicator.errors import ConfigurationError
from webapp.web import outbound
from webapp.web.outbound import NotSentError, allowed, checked_url, post

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))
        self.send_response(int(self.path.strip("/").split("?")[0] or 200))
        self.send_header("Location", "http://169.254.169.254/")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "224.0.0.1", "255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1",
        "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::1",
    ],
)  # fmt: skip
def test_what_is_not_public_is_refused_unless_its_network_is_named(address: str) -> None:
    one = ipaddress.ip_address(address)
    assert not allowed(one, ())
    assert not allowed(one, (ipaddress.ip_network("203.0.113.0/24"),))


@pytest.mark.parametrize("address", ["8.8.8.8", "140.82.121.4", "2606:4700::1111", "2002:808:808::1"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert allowed(ipaddress.ip_address(address), ())


def test_a_named_network_is_allowed() -> None:
    assert allowed(ipaddress.ip_address("10.1.2.3"), (ipaddress.ip_network("10.1.0.0/16"),))
    assert not allowed(ipaddress.ip_address("10.2.2.3"), (ipaddress.ip_network("10.1.0.0/16"),))


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example.com", "ftp://example.com/x", "file:///etc/passwd", "https:///x", "https://user:pw@example.com/",
        "https://exa mple.com/", "https://example.com/\r\nHost: x", "https://example.com:99999/", "https://example.com:0/",
        "https://exämple.com/", "https://example.com/" + "x" * 2000, "gopher://example.com/",
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        checked_url(url)
    assert not url or url not in caught.value.message


def test_a_message_arrives_where_it_may_go(receiver: Any) -> None:
    url = f"http://127.0.0.1:{receiver.server_port}/200?a=b"
    post(url, b"{}", {"Content-Type": "application/json"}, also=LOOPBACK)
    [(path, headers, body)] = receiver.got
    assert (path, body, headers["Content-Type"]) == ("/200?a=b", b"{}", "application/json")
    assert headers["Host"] == f"127.0.0.1:{receiver.server_port}"


def test_loopback_is_refused_by_default_by_name_and_by_number(receiver: Any) -> None:
    for host in ("127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]"):
        with pytest.raises(NotSentError, match=r"not public|could not be resolved") as caught:
            post(f"http://{host}:{receiver.server_port}/200", b"{}", {})
        assert str(receiver.server_port) not in caught.value.reason
    assert receiver.got == []


def test_the_address_that_was_judged_is_the_one_that_is_asked(receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means something else a moment later (DNS rebinding) is not looked up again."""
    answers = iter([[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", receiver.server_port))]])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: next(answers))
    create, dialled = socket.create_connection, []

    def connect(address: Any, *args: Any, **kwargs: Any) -> Any:
        dialled.append(address)
        monkeypatch.undo()
        return create(address, *args, **kwargs)

    monkeypatch.setattr(socket, "create_connection", connect)
    post(f"http://rebind.example:{receiver.server_port}/200", b"{}", {}, also=LOOPBACK)
    assert dialled == [("127.0.0.1", receiver.server_port)]
    assert receiver.got[0][1]["Host"] == f"rebind.example:{receiver.server_port}"


@pytest.mark.parametrize(("status", "lasting"), [(302, True), (404, True), (429, False), (500, False), (503, False)])
def test_redirects_are_not_followed_and_errors_are_told_apart(receiver: Any, status: int, lasting: bool) -> None:
    with pytest.raises(NotSentError, match=str(status)) as caught:
        post(f"http://127.0.0.1:{receiver.server_port}/{status}", b"{}", {}, also=LOOPBACK)
    assert (caught.value.lasting, len(receiver.got)) == (lasting, 1)


def test_a_server_that_answers_a_byte_at_a_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "WHOLE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            found, _ = server.accept()
            with found, suppress(OSError):
                for byte in b"HTTP/1.1 200 OK" + b"." * 100:
                    found.sendall(bytes((byte,)))
                    time.sleep(0.1)

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(NotSentError, match="did not respond"):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, also=LOOPBACK)
        thread.join()


def test_a_server_that_is_not_there_and_a_certificate_that_is_none_are_told(receiver: Any) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(NotSentError, match="did not respond"):
        post(f"http://127.0.0.1:{port}/", b"{}", {}, also=LOOPBACK)
    with pytest.raises(NotSentError, match="did not respond"):
        post(f"https://127.0.0.1:{receiver.server_port}/", b"{}", {}, also=LOOPBACK)
