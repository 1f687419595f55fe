"""A real Spark Connect server: what `start-connect-server.sh` starts, on loopback, with what docs/cluster.md asks
for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from pathlib import Path

import pyspark

from replicator.targets.iceberg.jvm.jvm import EXTENSIONS, LOG4J
from tests import java
from webapp.embedded.java_artifacts import spark_jars
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Killed and started again it has the same address, and no memory of its sessions."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str] | None = None, bundles: Collection[str] = ()
    ) -> None:
        """`folder` holds the log; `environment`: more of it than ours; `bundles`: of clouds, on its class path."""
        self.folder, self.port = folder, free_port()
        self._environment, self._jars = dict(environment or {}), spark_jars(bundles)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """For SPARK_REMOTE."""
        return f"sc://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        claim(self.port)
        settings = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": "1g",
            "spark.driver.extraClassPath": ":".join(map(str, self._jars)),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG4J.as_uri()} {java.SHORT_LIVED}",
            "spark.sql.extensions": EXTENSIONS,
            "spark.ui.enabled": "false",
        }
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        own = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        self._child = start(
            "connect",
            [str(submit), "--master", "local[2]", "--class", SERVER, *options],
            self.folder / "connect.log",
            environment=own | self._environment,
            cwd=self.folder,
        )
        if not wait_for_port(self.port, 120.0) or not self._child.alive:
            message = f"The Spark Connect server did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def freeze(self) -> None:
        """It takes connections, and says nothing."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        self._signal(signal.SIGCONT)

    def _signal(self, how: signal.Signals) -> None:
        if self._child is not None:
            os.killpg(self._child.process.pid, how)
