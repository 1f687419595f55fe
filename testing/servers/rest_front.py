"""A front for an Iceberg REST catalog, for tests: it asks who the clients are, gives them credentials of the storage,
and plays trouble.

The catalog behind it knows nothing of this.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import re
import secrets
import socket
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import claim

TOKENS, CONFIG = "/v1/oauth/tokens", "/v1/config"
TABLE = r"/namespaces/[^/]+/tables/[^/]+$"  # a POST to it commits
DELEGATION, VENDED = "X-Iceberg-Access-Delegation", "vended-credentials"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
LOADS = {"GET table", "POST tables", "POST register"}  # they answer with LoadTableResult
KEPT = 200
OK = 200
NOT_FORWARDED = {"host", "connection", "keep-alive", "content-length", "accept-encoding", "authorization"}
NOT_RETURNED = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}
SCHEMES = {"s3.": "s3", "gcs.": "gs", "adls.": "abfs"}  # of what a credential opens, by the names of its settings
TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NoSuchTableException",
    409: "CommitFailedException",
    429: "TooManyRequestsException",
    500: "InternalServerError",
    502: "BadGatewayException",
    503: "ServiceUnavailableException",
    504: "GatewayTimeoutException",
}


@dataclass(frozen=True)
class Request:
    """`target` is the path with the query, as it was sent."""

    method: str
    target: str
    headers: Message
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: Sequence[tuple[str, str]] = ()

    def merged(self, change: Mapping[str, Any]) -> Answer:
        """With JSON objects and lists of the body extended by those of `change`."""
        known = json.loads(self.body)
        for name, value in change.items():
            known[name] = (
                {**known.get(name, {}), **value} if isinstance(value, dict) else [*known.get(name, []), *value]
            )
        return Answer(self.status, json.dumps(known).encode(), self.headers)


def _json(status: int, value: Mapping[str, Any], headers: Sequence[tuple[str, str]] = ()) -> Answer:
    return Answer(status, json.dumps(value).encode(), (("Content-Type", "application/json"), *headers))


def error(status: int, message: str, *, kind: str = "", headers: Mapping[str, str] | None = None) -> Answer:
    """The REST specification's error; its type follows from the status where `kind` names none."""
    told = {"message": message, "type": kind or TYPES.get(status, "ServerError"), "code": status}
    return _json(status, {"error": told}, tuple((headers or {}).items()))


@dataclass(frozen=True)
class Line:
    """A request that was answered; with the status 0 where its answer was lost."""

    method: str
    target: str
    kind: str
    status: int
    delegation: str
    seconds: float


@dataclass
class Fault:
    """What happens to the next `left` requests that match; `met` counts those that it has happened to."""

    method: str
    path: re.Pattern[str]
    left: int
    forwarded: bool = True
    answered: bool = True
    error: Answer | None = None
    before: float = 0.0
    after: float = 0.0
    met: int = 0


class OAuth:
    """A token server: grants by client credentials, and by an exchange of its own tokens."""

    def __init__(
        self, clients: Mapping[str, str], *, token_seconds: float = 3600.0, scope: str = "", exchanges: bool = True
    ) -> None:
        """clients: their ids with their secrets.  scope: refuses others.  exchanges: False to refuse such a grant."""
        self.clients = dict(clients)
        self.token_seconds, self.scope, self.exchanges = token_seconds, scope, exchanges
        self._ends: dict[str, float] = {}

    def accepts(self, token: str) -> bool:
        return time.monotonic() < self._ends.get(token, 0.0)

    def expire(self) -> None:
        """All tokens that it has given are old from now on."""
        self._ends = dict.fromkeys(self._ends, 0.0)

    def answer(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        grant, subject = form.get("grant_type"), form.get("subject_token", "")
        if grant not in ({"client_credentials", EXCHANGE} if self.exchanges else {"client_credentials"}):
            return _refused(400, "unsupported_grant_type", f"The grant {grant} is not supported")
        known = _client(request, form) in self.clients.items()
        if grant == EXCHANGE:  # a client may exchange its token after its end, too
            known = self.accepts(subject) or (known and subject in self._ends)
        if not known:
            return _refused(401, "invalid_client", "The client or its token is not known")
        if self.scope and form.get("scope") != self.scope:
            return _refused(400, "invalid_scope", f"The scope is not {self.scope}")
        token = secrets.token_urlsafe(24)
        self._ends[token] = time.monotonic() + self.token_seconds
        given = {
            "access_token": token,
            "token_type": "bearer",
            "expires_in": int(self.token_seconds),
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
        return _json(200, given)


def _client(request: Request, form: Mapping[str, str]) -> tuple[str, str]:
    """The id and the secret, from the header or from the form."""
    basic = request.headers.get("Authorization", "")
    if basic.startswith("Basic "):
        with contextlib.suppress(ValueError):
            user, _, secret = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
            return unquote(user), unquote(secret)
    return form.get("client_id", ""), form.get("client_secret", "")


def _refused(status: int, name: str, text: str) -> Answer:
    return _json(status, {"error": name, "error_description": text})


@dataclass(frozen=True)
class SigV4:
    """AWS's signature, which it computes itself."""

    key: str
    secret: str = field(repr=False)
    region: str = "us-east-1"
    service: str = "execute-api"

    def refusal(self, request: Request) -> str:
        """Why the request is not signed as it must be; empty if it is."""
        given = request.headers.get("Authorization", "")
        form = r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?"
        found = re.fullmatch(form + "Signature=([0-9a-f]{64})", given)
        if found is None:
            return "The request has no signature"
        key, day, region, service, names, signature = found.groups()
        if (key, region, service) != (self.key, self.region, self.service):
            return f"The scope of the signature is {key}/{region}/{service}"
        digest = hashlib.sha256(request.body).digest()
        told = request.headers.get("x-amz-content-sha256", "")
        if told not in {"", digest.hex(), base64.b64encode(digest).decode()}:  # Iceberg's Java client sends base64
            return "The signed digest is not that of the body"
        whole = urlsplit(request.target)
        for path in (quote(whole.path, safe="/~-._"), whole.path):  # AWS signs a path that is quoted twice, but on S3
            for payload in (told, digest.hex()):
                if hmac.compare_digest(signature, self._signature(request, day, names, path, payload)):
                    return ""
        return "The signature is wrong"

    def _signature(self, request: Request, day: str, names: str, path: str, payload: str) -> str:
        query = sorted(
            (quote(name, safe="-._~"), quote(value, safe="-._~"))
            for name, value in parse_qsl(urlsplit(request.target).query, keep_blank_values=True)
        )
        headers = [
            f"{name}:{','.join(v.strip() for v in request.headers.get_all(name, []))}" for name in names.split(";")
        ]
        parts = [request.method, path, "&".join(f"{n}={v}" for n, v in query), *headers, "", names, payload]
        scope = f"{day}/{self.region}/{self.service}/aws4_request"
        text = "\n".join(
            [
                "AWS4-HMAC-SHA256",
                request.headers.get("x-amz-date", ""),
                scope,
                hashlib.sha256("\n".join(parts).encode()).hexdigest(),
            ]
        )
        key = f"AWS4{self.secret}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.digest(key, part.encode(), "sha256")
        return key.hex()


class RestFront:
    """A server on loopback before the catalog at `catalog`.

    It may be changed while it runs: `token`, `oauth`, `sigv4`, `vended` and `vends_unasked` are read at each request.
    """

    def __init__(
        self,
        catalog: str,
        port: int | None = None,
        *,
        token: str = "",
        oauth: OAuth | None = None,
        sigv4: SigV4 | None = None,
        vended: Mapping[str, str] | None = None,
        warehouses: Sequence[str] = (),
    ) -> None:
        """Without token, oauth and sigv4 everybody may ask.

        token: one that is always right.  vended: credentials that answers about tables carry.  warehouses: names that
        a client has to give, of which each becomes the prefix of its paths; they share one catalog.
        """
        self.port = port or free_port()
        self.token, self.oauth, self.sigv4 = token, oauth, sigv4
        self.vended, self.vends_unasked = dict(vended or {}), True
        self.counts: Counter[str] = Counter()
        self.lines: deque[Line] = deque(maxlen=KEPT)
        self._catalog = urlsplit(catalog).netloc
        self._prefixes = {name: quote(name, safe="") for name in warehouses}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server: _Server | None = None

    @property
    def uri(self) -> str:
        """The URI for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        claim(self.port)
        self._server = _Server(self, self.port)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True, name="rest-front").start()

    def stop(self) -> None:
        """Connections that are open end, too."""
        if self._server is not None:
            self._server.end()
            self._server = None

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse connections within the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def expire(self) -> None:
        """The tokens that were given are old from now on."""
        if self.oauth is not None:
            self.oauth.expire()

    def clear(self) -> None:
        """Forget faults, counts and lines."""
        with self._lock:
            self._faults.clear()
            self.counts.clear()
            self.lines.clear()

    # Faults: each happens to the next `times` requests whose method is `method` (empty: any) and whose path, without
    # the prefix, has `path`.  The one that was armed first comes first.

    def answer(
        self, status: int, *, times: int = 1, method: str = "POST", path: str = TABLE, headers: Mapping[str, str] = {}
    ) -> Fault:
        """The request is answered with the status and does not reach the catalog."""
        told = error(status, "The front was told to answer so", headers=headers)
        return self._arm(Fault(method, re.compile(path), times, forwarded=False, error=told))

    def forward_and_answer(self, status: int, *, times: int = 1, method: str = "POST", path: str = TABLE) -> Fault:
        """The catalog does what is asked; the client hears of the status instead."""
        return self._arm(Fault(method, re.compile(path), times, error=error(status, "The front was told to answer so")))

    def lose_answer(self, *, times: int = 1, method: str = "POST", path: str = TABLE) -> Fault:
        """The catalog does what is asked; the connection ends before the client hears of it."""
        return self._arm(Fault(method, re.compile(path), times, answered=False))

    def delay(
        self, before: float = 0.0, after: float = 0.0, *, times: int = 1, method: str = "POST", path: str = TABLE
    ) -> Fault:
        """The request waits seconds before it is forwarded, its answer afterwards."""
        return self._arm(Fault(method, re.compile(path), times, before=before, after=after))

    def _arm(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def _met(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.left > 0 and fault.method in {"", method} and fault.path.search(path):
                    fault.left -= 1
                    fault.met += 1
                    return fault
        return None

    def handle(self, request: Request) -> Answer | None:
        """None where the connection has to end without an answer."""
        began = time.monotonic()
        path = self._inner(request.path) or request.path
        answer = self._troubled(request, self._met(request.method, path), path)
        kind = f"{request.method} {_kind(path)}"
        with self._lock:
            self.counts[kind] += 1
            status, seconds = answer.status if answer else 0, time.monotonic() - began
            asked = request.headers.get(DELEGATION, "")
            self.lines.append(Line(request.method, request.target, kind, status, asked, seconds))
        return answer

    def _troubled(self, request: Request, fault: Fault | None, path: str) -> Answer | None:
        if fault is None:
            return self._checked(request, path)
        time.sleep(fault.before)
        answer: Answer | None = fault.error
        if fault.forwarded:
            answer = self._checked(request, path)
            answer = fault.error or answer
        time.sleep(fault.after)
        return answer if fault.answered else None

    def _checked(self, request: Request, path: str) -> Answer:
        if path == TOKENS and self.oauth is not None:
            return self.oauth.answer(request)
        if refusal := self._refusal(request):
            return error(401, refusal)
        if self._inner(request.path) is None:
            return error(404, "The prefix is not that of a warehouse", kind="NoSuchWarehouseException")
        return self._config(request) if path == CONFIG else self._answered(request, path)

    def _answered(self, request: Request, path: str) -> Answer:
        """With credentials where it is about a table."""
        asked = f"{request.method} {_kind(path)}"
        vended = self.vended if self.vends_unasked or VENDED in request.headers.get(DELEGATION, "") else {}
        if asked == "GET credentials":
            scheme = SCHEMES[min(SCHEMES, key=lambda name: name not in " ".join(vended))]
            return _json(200, {"storage-credentials": [{"prefix": scheme, "config": vended}] if vended else []})
        answer = self._forwarded(request, path)
        return answer.merged({"config": vended}) if vended and asked in LOADS and answer.status == OK else answer

    def _refusal(self, request: Request) -> str:
        """Empty for a client that may ask."""
        if self.sigv4 is not None:
            return self.sigv4.refusal(request)
        if not self.token and self.oauth is None:
            return ""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return "The request has no token"
        right = bool(self.token) and hmac.compare_digest(token, self.token)
        return "" if right or (self.oauth is not None and self.oauth.accepts(token)) else "The token is wrong or old"

    def _inner(self, path: str) -> str | None:
        """The path that the catalog knows; None where the prefix is of no warehouse."""
        if not self._prefixes or path in {TOKENS, CONFIG}:
            return path
        match = re.fullmatch(r"/v1/([^/]+)(/.*)", path)
        return f"/v1{match[2]}" if match and match[1] in self._prefixes.values() else None

    def _config(self, request: Request) -> Answer:
        answer = self._forwarded(request, CONFIG)
        if answer.status != OK:
            return answer
        if self.vended:
            answer = answer.merged({"endpoints": [CREDENTIALS]})
        if not self._prefixes:
            return answer
        name = dict(parse_qsl(urlsplit(request.target).query)).get("warehouse", "")
        if name not in self._prefixes:
            return error(404, f"The warehouse {name!r} does not exist", kind="NoSuchWarehouseException")
        return answer.merged({"overrides": {"prefix": self._prefixes[name]}})

    def _forwarded(self, request: Request, path: str) -> Answer:
        """503 where the catalog is not there, 502 where it ends before it has answered."""
        query = urlsplit(request.target).query
        headers = {name: value for name, value in request.headers.items() if name.lower() not in NOT_FORWARDED}
        connection = HTTPConnection(self._catalog, timeout=120)
        try:
            connection.connect()
        except OSError as reason:
            return error(503, f"The catalog cannot be reached: {reason}")
        with contextlib.closing(connection):
            try:
                connection.request(request.method, f"{path}?{query}" if query else path, request.body or None, headers)
                answer = connection.getresponse()
                body = answer.read()
            except (OSError, HTTPException) as reason:
                return error(502, f"The catalog does not answer: {reason}")
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in NOT_RETURNED]
        return Answer(answer.status, body, kept)


def _kind(path: str) -> str:
    """What a path means: `table` for one table, `tables` for all, `tables/rename`."""
    _, _, *parts = path.split("/")
    if len(parts) % 2:
        return parts[-1]
    return parts[-2].removesuffix("s") if parts[:1] == ["namespaces"] else "/".join(parts)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, front: RestFront, port: int) -> None:
        self.front = front
        self._open: set[Any] = set()
        super().__init__((LOOPBACK, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections are kept
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves at once
    server: _Server

    def handle_any(self) -> None:
        if self.headers.get("Transfer-Encoding"):
            self.send_error(411)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.front.handle(Request(self.command, self.path, self.headers, body))
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.status not in {204, 304}:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """`RestFront.lines` has them."""
