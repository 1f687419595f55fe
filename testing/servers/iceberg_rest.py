"""Embedded Iceberg REST catalog, for tests: the adapter of Iceberg's own tests over a JdbcCatalog on SQLite.

The server is one JVM.  Spark's jars hold Jetty and most libraries; two jars more are fetched on first use.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError

from webapp.embedded.java_artifacts import ICEBERG, ICEBERG_AWS, SQLITE_DRIVER, all_fetched, java, listed
from webapp.embedded.ports import LOOPBACK, free_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

JARS = Path(__file__).parent / "iceberg_rest_jars.txt"
START_SECONDS = 120.0
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
GATEWAY = ("py4j.GatewayServer", "--enable-auth", "0")
DATABASE = "jdbc:sqlite:{}?journal_mode=WAL&synchronous=NORMAL"  # it survives the end of a process, not of a machine


class EmbeddedRestCatalog:
    """One server on loopback without authentication; a second start continues with its data.

    Where a test needs tokens, signatures, credentials or faults, `testing.servers.rest_front` is put in front of it.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        warehouse: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """`folder` holds the database and the log, and the warehouse where none is named.

        properties: those of the catalog, among them what its FileIO needs; no command line shows them.
        """
        self.folder = folder.resolve()
        self.port = port or free_port()
        self.warehouse = warehouse or (self.folder / "warehouse").as_uri()
        self._properties = dict(properties or {})
        self._child: Child | None = None

    @property
    def uri(self) -> str:
        """The URI for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        program = java()
        if program is None:
            raise ServerFailed("The embedded REST catalog requires Java.")
        scratch, log = self.folder / "scratch", self.folder / "rest.log"
        scratch.mkdir(parents=True, exist_ok=True)
        claim(self.port)
        written = log.stat().st_size if log.exists() else 0
        command = [program, *OPTIONS, f"-Djava.io.tmpdir={scratch}", "-cp", ":".join(classes()), *GATEWAY]
        self._child = start("rest", command, log, environment=os.environ)
        try:
            self._serve(*_gateway(self._child, written))
        except (Py4JError, OSError, TimeoutError) as error:
            tail = self._child.tail()
            self.stop(signal.SIGKILL)
            raise ServerFailed(f"The embedded REST catalog did not start: {error}\n{tail}") from None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    @property
    def process(self) -> int | None:
        """The id of the JVM, while it runs."""
        return self._child.process.pid if self._child is not None else None

    def _serve(self, port: int, token: str) -> None:
        """Make the catalog and its server in the JVM, and let go of the JVM."""
        told = GatewayParameters(address=LOOPBACK, port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=told)
        iceberg, jetty = gateway.jvm.org.apache.iceberg, gateway.jvm.org.sparkproject.jetty
        catalog = iceberg.jdbc.JdbcCatalog()
        catalog.setConf(gateway.jvm.org.apache.hadoop.conf.Configuration())
        catalog.initialize("rest", self._catalog())
        servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(catalog))
        handler = jetty.servlet.ServletContextHandler()
        handler.addServlet(jetty.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(gateway.jvm.java.net.InetSocketAddress(LOOPBACK, self.port))
        server.setHandler(handler)
        server.start()
        gateway.shutdown()

    def _catalog(self) -> dict[str, str]:
        own = {
            "uri": DATABASE.format(self.folder / "catalog.db"),
            "warehouse": self.warehouse,
            "jdbc.schema-version": "V1",  # with views
            "clients": "1",  # SQLite has one writer: the others would meet a locked database
        }
        return own | self._properties


def classes() -> list[str]:
    """The class path: `group name version sha256 classifier` of what it adds to Spark's jars and to our own.

    Iceberg's core comes before Spark's runtime, which holds a copy that its other libraries are woven into.
    """
    import pyspark

    added = listed(JARS)
    jars = [str(jar) for jar in all_fetched([*added, ICEBERG_AWS, ICEBERG, SQLITE_DRIVER])]
    return [*jars, str(Path(pyspark.__file__).parent / "jars" / "*")]


def _gateway(child: Child, written: int) -> tuple[int, str]:
    """The port and the token of py4j's gateway, which are the first lines that it prints on its own."""
    deadline = time.monotonic() + START_SECONDS
    while child.alive and time.monotonic() < deadline:
        printed = child.log.read_bytes()[written:].decode(errors="replace")
        if found := re.search(r"^(\d+)\n(\S+)\n", printed, re.MULTILINE):
            return int(found[1]), found[2]
        time.sleep(0.02)
    raise TimeoutError("its JVM does not answer")
