"""The same small merges in the lakehouse of the installation, in a REST catalog, and in one whose files are on S3: how
long one takes, and how many requests.
"""

from __future__ import annotations

import statistics
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.data.world import World
from benchmarks.initial_load import say
from benchmarks.lake.merging import MergedTable
from benchmarks.report import Row
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.rest_front import RestFront
from testing.servers.s3 import EmbeddedS3
from webapp.embedded.ports import LOOPBACK, free_port

ROWS, KEYS, MERGES, WARM = 500_000, 1_000, 20, 3


def run(world: World[Any], rows: int | None) -> list[Row]:
    """Merges in turn, so that all places meet what else the machine does."""
    from replicator.targets.iceberg.destination import lake_catalog
    from replicator.targets.iceberg.jvm import jvm
    from replicator.targets.iceberg.target import IcebergTarget
    from webapp.destinations.lakes import built_in_lake
    from webapp.replicators.staging import storage
    from webapp.worker.run.spark import spark

    own = built_in_lake()
    with _servers(world) as (rest, on_s3, store, settings):
        places = {"its own lakehouse": (own, None, None)}
        plain = {"catalog": "rest", "uri": rest.uri, "auth": "none", "store": "file"}
        places["a REST catalog"] = (lake_catalog(plain, own), rest, None)
        places["a REST catalog and S3"] = (lake_catalog({**settings, "uri": on_s3.uri}, own), on_s3, store)
        bundles = frozenset[str]().union(*(lake.bundles for lake, _, _ in places.values()))
        try:
            tables = {}
            for name, (lake, _, _) in places.items():
                pool = spark(lake, bundles)
                tables[name] = MergedTable(IcebergTarget(pool, storage(), "bench"), pool, "catalogs", rows or ROWS)
                tables[name].merges(KEYS, WARM)
            seconds: dict[str, list[float]] = {name: [] for name in places}
            asked: dict[str, Counter[str]] = {name: Counter() for name in places}
            for _ in range(MERGES):
                for name, (_, front, files) in places.items():
                    before = _counted(front, files)
                    seconds[name] += tables[name].merges(KEYS, 1).seconds
                    asked[name] += _counted(front, files) - before
        finally:
            jvm.stop()
    base = statistics.median(seconds["its own lakehouse"])
    found = []
    for name, took in seconds.items():
        ours, per = statistics.median(took), {what: number / MERGES for what, number in asked[name].items()}
        say(f"catalogs: {name}: {ours:.3f} s, requests {per}")
        found.append(Row(f"catalogs: 1k keys into {name}", ours, base, "none", met=True, unit="s"))
        for what in ("catalog", "store"):
            number = sum(value for key, value in per.items() if key.startswith(what))
            found += [Row(f"catalogs: requests to the {what} in one, {name}", number, None, "none", met=True)] * bool(
                number
            )
    return found


@contextmanager
def _servers(world: World[Any]) -> Iterator[tuple[RestFront, RestFront, _CountingStore, dict[str, str]]]:
    """Fronts of two REST catalogs, the store of the second one, and the settings of a destination there."""
    s3 = EmbeddedS3(world.folder / "s3")
    s3.start()
    store = _CountingStore(s3.port)
    endpoint = f"http://{LOOPBACK}:{store.port}"
    keys = {"s3.access-key-id": s3.user, "s3.secret-access-key": s3.secret, "s3.path-style-access": "true"}
    own = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "us-east-1", **keys}
    servers = [
        EmbeddedRestCatalog(world.folder / "rest"),
        EmbeddedRestCatalog(
            world.folder / "rest-s3",
            warehouse=f"{s3.url}/bench",
            properties={**own, "s3.endpoint": s3.environment["AWS_ENDPOINT_URL"]},
        ),
    ]
    for server in servers:
        server.start()
    fronts = [RestFront(server.uri) for server in servers]
    for front in fronts:
        front.start()
    settings = {
        "catalog": "rest", "auth": "none", "store_endpoint": endpoint, "credentials": "keys",
        "access_key_id": s3.user, "secret_access_key": s3.secret,
    }  # fmt: skip
    try:
        yield fronts[0], fronts[1], store, settings
    finally:
        for one in (*fronts, *servers, store, s3):
            one.stop()


def _counted(front: RestFront | None, store: _CountingStore | None) -> Counter[str]:
    found = Counter({f"catalog {what}": number for what, number in (front.counts if front else Counter()).items()})
    return found + Counter({f"store {what}": number for what, number in (store.counts if store else Counter()).items()})


class _CountingStore:
    """Passes each request on as it is, its Host header too, which the signature covers."""

    def __init__(self, port: int) -> None:
        """`port`: the store's."""
        counts: Counter[str] = Counter()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                counts[self.command] += 1
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                inner = HTTPConnection(LOOPBACK, port)
                inner.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    inner.putheader(name, value)
                inner.endheaders(body)
                answer = inner.getresponse()
                data = answer.read()
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.getheaders():
                    if name.lower() not in {"transfer-encoding", "content-length", "connection"}:
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                self.wfile.write(data)
                inner.close()

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815 - as http.server calls them

            def log_message(self, *_: Any) -> None:
                """Nothing."""

            def handle_expect_100(self) -> bool:
                self.send_response_only(100)
                self.end_headers()
                del self.headers["Expect"]
                return True

        self.counts, self.port = counts, free_port()
        self._server = ThreadingHTTPServer((LOOPBACK, self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
