"""Embedded Hive Metastore 2.3 on Derby, from the jars that ship inside pyspark, for tests.  As a program, it is that
server: the metastore's own would listen on all addresses.

A metastore makes the folders of databases and tables.  This one has no client of a store, and makes them in its own
folder.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from webapp.embedded.java_artifacts import java
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

ROOT = Path(__file__).parents[2]
HIVE = "org.apache.hadoop.hive"
START_SECONDS = 180.0
THREADS = 64


class EmbeddedHive:
    """One metastore on loopback, with an empty catalog.

    What it holds stays in its folder, also when it is killed.
    """

    def __init__(self, folder: Path, port: int | None = None, *, stores: Sequence[str] = ()) -> None:
        """`folder` holds the database and the log; `stores` are the roots of warehouses, such as `s3://tidemark`."""
        self.folder, self._stores = folder.resolve(), stores
        self.port = port or free_port()
        self._child: Child | None = None

    @property
    def uri(self) -> str:
        """The URI for clients."""
        return f"thrift://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        if java() is None:
            message = "Embedded Hive Metastore requires Java."
            raise ServerFailed(message)
        self.folder.mkdir(parents=True, exist_ok=True)
        claim(self.port)
        command = [sys.executable, "-m", "testing.servers.hive", str(self.port), str(self.folder), *self._stores]
        self._child = start("hive", command, self.folder / "hive.log", cwd=ROOT)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Hive Metastore did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None


def _settings(folder: Path, stores: Sequence[str]) -> dict[str, str]:
    folders: dict[str, str] = {}
    for store in map(urlsplit, stores):
        place = folder / "folders" / store.netloc
        place.mkdir(parents=True, exist_ok=True)
        folders[f"fs.{store.scheme}.impl"] = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
        folders[f"fs.viewfs.mounttable.{store.netloc}.linkMergeSlash"] = place.as_uri()
    return folders | {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'derby'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "DBCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.disallow.incompatible.col.type.changes": "false",  # docs/destinations.md
        "hive.metastore.warehouse.dir": str(folder / "warehouse"),
    }


def main() -> None:
    """Serve on a port, from a folder."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    port, folder, stores = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.driver.memory", "384m")
    conf.set("spark.driver.extraJavaOptions", f"-XX:TieredStopAtLevel=1 -Dderby.stream.error.file={folder}/derby.log")
    gateway: Any = launch_gateway(conf)

    def new(name: str, *arguments: Any) -> Any:
        """An object of a class that may stand inside another."""
        loaded = gateway.jvm.java.lang.Class.forName(name)
        values = gateway.new_array(gateway.jvm.java.lang.Object, len(arguments))
        for index, value in enumerate(arguments):
            values[index] = value
        makers = [maker for maker in loaded.getConstructors() if maker.getParameterCount() == len(arguments)]
        return makers[0].newInstance(values)

    hive = gateway.jvm.org.apache.hadoop.hive
    settings = hive.conf.HiveConf()
    for name, value in _settings(folder, stores).items():
        settings.set(name, value)
    with contextlib.suppress(Py4JJavaError):  # they are there since an earlier start
        hive.metastore.txn.TxnDbUtil.prepDb(settings)  # the tables of its locks
    handler = new(f"{HIVE}.metastore.HiveMetaStore$HMSHandler", "tidemark", settings, False)  # noqa: FBT003 - Java's
    handler = hive.metastore.RetryingHMSHandler.getProxy(settings, handler, True)  # noqa: FBT003
    thrift = gateway.jvm.org.apache.thrift
    socket = thrift.transport.TServerSocket(gateway.jvm.java.net.InetSocketAddress(LOOPBACK, port))
    options = new("org.apache.thrift.server.TThreadPoolServer$Args", socket)
    options.processor(hive.metastore.TSetIpAddressProcessor(handler)).maxWorkerThreads(THREADS)
    thrift.server.TThreadPoolServer(options).serve()


if __name__ == "__main__":
    main()
