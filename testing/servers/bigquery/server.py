"""The server: a part of BigQuery's REST API, version 2, for the vendor's client, and what a test wants to go wrong.

It checks what the API documents: a token for each request, names, types, a transaction's statements.  It has no roles,
no quotas, no slots and no locations but one.  What it holds is in memory.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from google.auth import jwt

from testing.servers.bigquery.embedded import ACCOUNT, PROJECT, EmbeddedBigQuery
from testing.servers.bigquery.jobs import Jobs
from testing.servers.bigquery.refusals import Refusal
from testing.servers.bigquery.tables import Tables, check_clustering
from webapp.embedded.ports import LOOPBACK

STATEMENTS = "TIDEMARK_BIGQUERY_STATEMENTS"  # the file to which every executed query is appended
TOKEN_SECONDS = 3600
AUDIENCE = "https://oauth2.googleapis.com/token"  # of every assertion, wherever it is sent
Answer = dict[str, Any]


class Service:
    """The server's state, and the faults to inject next.

    Counts of faults: lost answers of jobs, refused connections, unavailable requests, limited jobs (not begun).
    """

    def __init__(self, public_key: bytes, address: str) -> None:
        self.tables = Tables(PROJECT, EmbeddedBigQuery.location)
        self.jobs = Jobs(self.tables)
        self.tokens: set[str] = set()
        self.uploads: dict[str, tuple[Answer, bytearray]] = {}
        self.public_key, self.address = public_key, address
        self.troubles = dict.fromkeys(("lost", "refused", "unavailable", "limited"), 0)
        self.hangs_until = 0.0

    def token(self, form: dict[str, str]) -> Answer:
        """For an assertion that the account's key has signed."""
        try:
            said = jwt.decode(form.get("assertion", ""), certs=self.public_key, audience=AUDIENCE)
        except ValueError:
            raise Refusal("authError", "Invalid JWT Signature.") from None
        if said["iss"] != ACCOUNT or "bigquery" not in said.get("scope", ""):
            raise Refusal("authError", "Invalid grant: account not found")
        token = uuid.uuid4().hex
        self.tokens.add(token)
        return {"access_token": token, "expires_in": TOKEN_SECONDS, "token_type": "Bearer"}

    def trouble(self, what: str, params: dict[str, str]) -> Answer:
        times = int(params.get("times", "1"))
        match what:
            case "expire":
                self.tokens.clear()
            case "cancel":
                self.jobs.cancel_all()
            case "hang":
                self.hangs_until = time.monotonic() + float(params["seconds"])
            case "conflict":
                self.jobs.conflicts += times
            case "fail":
                self.jobs.failing += [params.get("reason", "jobBackendError")] * times
            case "fail_late":
                self.jobs.failing_late += [params["of"]] * times
            case "none":
                self.troubles = dict.fromkeys(self.troubles, 0)
                self.jobs.failing, self.jobs.failing_late, self.jobs.conflicts = [], [], 0
            case _:
                self.troubles[what] += times
        return {}

    def met(self, what: str) -> bool:
        """Does it go wrong now?"""
        with self.tables.lock:
            if self.troubles[what] > 0:
                self.troubles[what] -= 1
                return True
            return False


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    service: Service

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Nothing."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the base's names

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.params = dict(parse_qsl(parts.query))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = parts.path.rstrip("/")
        jobs = (self.command == "POST" and path.endswith("/jobs")) or path.startswith("/resumable/")
        if path.startswith("/trouble/"):
            self._send(200, self.service.trouble(path.rpartition("/")[2], self.params))
            return
        time.sleep(max(0.0, self.service.hangs_until - time.monotonic()))
        if path != "/token" and self.service.met("refused"):
            self.close_connection = True
            return
        try:
            answer = self._answer(path, jobs=jobs)
        except Refusal as error:
            grant = {"error": "invalid_grant", "error_description": error.message}  # as OAuth has it
            self._send(400 if path == "/token" else error.status, grant if path == "/token" else error.body)
        except Exception as error:  # noqa: BLE001 - a test sees what has failed here
            traceback.print_exc()
            self._send(500, Refusal("internalError", f"The stand-in failed: {error}").body)
        else:
            if jobs and self.service.met("lost"):
                self.close_connection = True
            elif answer is not None:
                self._send(200 if answer else 204, answer)

    def _answer(self, path: str, *, jobs: bool) -> Answer | None:
        if path == "/token":
            return self.service.token(dict(parse_qsl(self.body.decode())))
        if self.headers.get("Authorization", "").removeprefix("Bearer ") not in self.service.tokens:
            raise Refusal("authError", "Request had invalid authentication credentials.")
        if self.service.met("unavailable"):
            raise Refusal("backendError", "The service is currently unavailable.")
        if jobs and self.service.met("limited"):
            raise Refusal("rateLimitExceeded", "Exceeded rate limits: too many concurrent queries")
        if path.startswith(("/upload/", "/resumable/")):
            return self._upload(path)
        for pattern, method, does in ROUTES:
            if method == self.command and (match := pattern.fullmatch(path)):
                names = [unquote(one) for one in match.groups()]
                if names[0] != PROJECT:
                    raise Refusal("accessDenied", f"Access Denied: Project {names[0]}: User does not have permission")
                return does(self, *names[1:])
        raise Refusal("notFound", f"Not found: {self.command} {path}")

    def _send(self, status: int, answer: Answer, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(answer).encode() if status != 204 else b""  # noqa: PLR2004
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @property
    def _json(self) -> Answer:
        found: Answer = json.loads(self.body or b"{}")
        return found

    # Uploads

    def _upload(self, path: str) -> Answer | None:
        service = self.service
        if self.params.get("uploadType") == "multipart":
            first, second = self._parts()
            return service.jobs.begin(json.loads(first), second)
        if self.command == "POST":
            name = uuid.uuid4().hex
            service.uploads[name] = self._json, bytearray()
            self._send(200, {}, {"Location": f"{service.address}/resumable/{name}"})
            return None
        sent, data = service.uploads[path.rpartition("/")[2]]
        match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", self.headers["Content-Range"])
        assert match is not None
        if match[1]:
            del data[int(match[1]) :]
            data += self.body
        if match[2] == "*" or len(data) < int(match[2]):
            self._send(308, {}, {"Range": f"bytes=0-{len(data) - 1}"})
            return None
        return service.jobs.begin(sent, bytes(data))

    def _parts(self) -> list[bytes]:
        """Of a multipart body."""
        match = re.search(r'boundary="?([^";]+)', self.headers["Content-Type"])
        assert match is not None
        parts = self.body.split(b"--" + match[1].encode())[1:-1]
        return [part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n") for part in parts]

    # The API

    def begin_job(self) -> Answer:
        return self.service.jobs.begin(self._json)

    def job(self, name: str) -> Answer:
        return self.service.jobs.resource(name)

    def cancel_job(self, name: str) -> Answer:
        return self.service.jobs.cancel(name)

    def results(self, name: str) -> Answer:
        return self.service.jobs.results(name, self.params)

    def datasets(self) -> Answer:
        return {"kind": "bigquery#datasetList", "datasets": list(self.service.tables.datasets.values())}

    def make_dataset(self) -> Answer:
        said = self._json
        return self.service.tables.make_dataset(said["datasetReference"]["datasetId"], said.get("location", ""))

    def dataset(self, name: str) -> Answer:
        return self.service.tables.dataset(name)

    def drop_dataset(self, name: str) -> Answer:
        self.service.tables.drop_dataset(name, contents=self.params.get("deleteContents", "").lower() == "true")
        return {}

    def listed_tables(self, dataset: str) -> Answer:
        tables = self.service.tables
        tables.dataset(dataset)
        found = [tables.resource(place) for place in list(tables.tables) if place[0] == dataset]
        return {"kind": "bigquery#tableList", "tables": found, "totalItems": len(found)}

    def make_table(self, dataset: str) -> Answer:
        said, tables = self._json, self.service.tables
        place = (dataset, said["tableReference"]["tableId"])
        expires = said.get("expirationTime")
        tables.make(
            place, said["schema"]["fields"], expires=int(expires) if expires else None,
            clustering=said.get("clustering", {}).get("fields", []), labels=said.get("labels", {}),
        )  # fmt: skip
        return tables.resource(place)

    def table(self, dataset: str, name: str) -> Answer:
        return self.service.tables.resource((dataset, name))

    def change_table(self, dataset: str, name: str) -> Answer:
        tables = self.service.tables
        with tables.lock:
            table, said = tables.find((dataset, name)), self._json
            if (tag := self.headers.get("If-Match")) and tag != table.etag:
                raise Refusal("conditionNotMet", "Precondition Failed")
            if "clustering" in said:
                by = (said["clustering"] or {}).get("fields") or []
                check_clustering(table.fields, by)
                table.clustering = by
            table.touch()
        return tables.resource((dataset, name))

    def drop_table(self, dataset: str, name: str) -> Answer:
        with self.service.tables.lock:
            self.service.tables.find((dataset, name))
            self.service.tables.drop((dataset, name))
        return {}

    def rows(self, dataset: str, name: str) -> Answer:
        return self.service.jobs.listed((dataset, name), self.params)


Route = tuple[re.Pattern[str], str, Callable[..., Answer | None]]


def _route(method: str, path: str, does: Callable[..., Answer | None]) -> Route:
    return re.compile("/bigquery/v2/projects/([^/]+)" + path.replace("{}", "([^/]+)")), method, does


ROUTES = [
    _route("POST", "/jobs", Handler.begin_job),
    _route("GET", "/jobs/{}", Handler.job),
    _route("POST", "/jobs/{}/cancel", Handler.cancel_job),
    _route("GET", "/queries/{}", Handler.results),
    _route("GET", "/datasets", Handler.datasets),
    _route("POST", "/datasets", Handler.make_dataset),
    _route("GET", "/datasets/{}", Handler.dataset),
    _route("DELETE", "/datasets/{}", Handler.drop_dataset),
    _route("GET", "/datasets/{}/tables", Handler.listed_tables),
    _route("POST", "/datasets/{}/tables", Handler.make_table),
    _route("GET", "/datasets/{}/tables/{}", Handler.table),
    _route("PATCH", "/datasets/{}/tables/{}", Handler.change_table),
    _route("DELETE", "/datasets/{}/tables/{}", Handler.drop_table),
    _route("GET", "/datasets/{}/tables/{}/data", Handler.rows),
]


class Server(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    """Arguments: port, and the folder that has the account's public key."""
    faulthandler.register(signal.SIGUSR1)  # tells in the log where each thread stands
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    Handler.service = Service((folder / "account.pem").read_bytes(), f"http://{LOOPBACK}:{port}")
    if told := os.environ.get(STATEMENTS):
        Handler.service.jobs.statements = Path(told)
    with Server((LOOPBACK, port), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
