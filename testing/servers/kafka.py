"""Embedded Kafka: one broker that is its own controller (KRaft), from its published jars.

For tests: fetched on first use.
"""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from webapp.embedded.java_artifacts import ArtifactMissing, all_fetched, java, listed
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

JARS = Path(__file__).parent / "kafka_jars.txt"
START_SECONDS = 120.0
HEAP = "-Xmx384m"
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


class EmbeddedKafka:
    """One broker on loopback, with the replication of one; a second start goes on with its data."""

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        options: Mapping[str, str] | None = None,
        listeners: Sequence[str] = (),
        users: Mapping[str, str] | None = None,
    ) -> None:
        """`options` are added to (or replace) the broker's settings.

        listeners: security protocols beside PLAINTEXT, each on a separate port; `options` has their keys and
        mechanisms.  users: SCRAM-SHA-512 users with their passwords, created together with the data folder.
        """
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._controller = free_port()
        self._ports = {"PLAINTEXT": self.port} | {name: free_port() for name in listeners}
        self._options, self._users = dict(options or {}), dict(users or {})
        self._child: Child | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.servers("PLAINTEXT")

    def servers(self, protocol: str) -> str:
        """The address of one of its listeners."""
        return f"{LOOPBACK}:{self._ports[protocol]}"

    def start(self) -> None:
        """Make the data folder if need be and start; ServerFailed with the log's end where it does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        data = self.folder / "data"
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings(data).items()))
        if not (data / "meta.properties").exists():
            self._format(data, settings)
        for port in (*self._ports.values(), self._controller):
            claim(port)
        self._child = self._java("kafka", "kafka.Kafka", str(settings))
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            tail = self._child.tail()
            self.stop(signal.SIGKILL)
            raise ServerFailed(f"Embedded Kafka did not start:\n{tail}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Clean shutdown by default; SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how, 30.0)
            self._child = None

    def _format(self, data: Path, settings: Path) -> None:
        shutil.rmtree(data, ignore_errors=True)
        cluster = uuid.uuid4().hex[:22]
        users = [f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in self._users.items()]
        told = ["--cluster-id", cluster, *(word for user in users for word in ("--add-scram", user))]
        child = self._java("kafka-format", "kafka.tools.StorageTool", "format", "--config", str(settings), *told)
        if child.process.wait() != 0:
            shutil.rmtree(data, ignore_errors=True)
            raise ServerFailed(f"Embedded Kafka could not make its data folder:\n{child.tail()}")

    def _settings(self, data: Path) -> dict[str, str]:
        listeners = ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in self._ports.items())
        own = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{self._controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": ",".join(
                [*(f"{name}:{name}" for name in self._ports), "CONTROLLER:PLAINTEXT"]
            ),
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
        }
        return own | self._options

    def _java(self, name: str, *arguments: str) -> Child:
        program = java()
        if program is None:
            raise ArtifactMissing("Kafka requires Java 17 or later: `java` was not found.")
        classes = ":".join(map(str, jars()))
        command = [program, HEAP, QUIET, "-cp", classes, *arguments]
        return start(name, command, self.folder / f"{name}.log", environment=os.environ)


def jars() -> list[Path]:
    """Those of kafka_jars.txt: `group name version sha256` of `org.apache.kafka:kafka_2.13` and what it wants at run
    time (Maven's list), and slf4j-simple.
    """
    return all_fetched(listed(JARS))
