"""Embedded AWS Glue: moto's server, for tests.  Run as a program, this module is that server.

It adds what moto lacks: as in AWS, an update of a table is refused unless it is based on the current version, and the
catalog is persisted in its folder.  On the same port moto serves S3, whose objects are lost when it stops; `s3.py`
keeps them.  Clients are not authenticated.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

ROOT = Path(__file__).parents[2]
ACCOUNT = "123456789012"  # moto's, for every client
CHANGES = ("create_database", "update_database", "delete_database", "create_table", "update_table", "delete_table")
START_SECONDS = 120.0


class EmbeddedGlue:
    """One server on loopback, with an empty catalog.

    What the catalog holds stays in its folder, also when it is killed.
    """

    region = "us-east-1"
    user = "tidemark"
    secret = "tidemark"  # noqa: S105 - moto does not look at it

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds the catalog and the log."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._child: Child | None = None

    @property
    def endpoint(self) -> str:
        """Of Glue, and of moto's S3."""
        return f"http://{LOOPBACK}:{self.port}"

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        claim(self.port)
        command = [sys.executable, "-m", "testing.servers.glue", str(self.port), str(self.folder / "catalog")]
        environment = {**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "false", "MOTO_ACCOUNT_ID": ACCOUNT}
        self._child = start("glue", command, self.folder / "glue.log", environment=environment, cwd=ROOT)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded Glue did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None


def main() -> None:
    """Serve on a port, from a file."""
    from moto.glue.models import glue_backends
    from moto.server import main as serve

    port, path = sys.argv[1], Path(sys.argv[2])
    backend: Any = glue_backends[ACCOUNT][EmbeddedGlue.region]
    if path.exists():
        backend.databases = pickle.loads(path.read_bytes())  # noqa: S301 - our own file
    _check_versions()
    _keep(backend, path)
    serve(["-H", LOOPBACK, "-p", port])


def _check_versions() -> None:
    """An update that names another version than the table's is refused."""
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    update, one_at_a_time = GlueResponse.update_table, threading.Lock()

    def checked(self: Any) -> Any:
        wanted = self.parameters.get("VersionId")
        with one_at_a_time:
            if wanted is not None:
                name = self.parameters["TableInput"]["Name"]
                table = self.glue_backend.get_table(self.parameters["DatabaseName"], name)
                if wanted != table.as_dict()["VersionId"]:
                    kind = "ConcurrentModificationException"
                    raise JsonRESTError(kind, f"Update table failed due to concurrent modifications of {name}.")
            return update(self)

    GlueResponse.update_table = checked  # type: ignore[method-assign]


def _keep(backend: Any, path: Path) -> None:
    """Each change is in the file before its client hears of it."""
    one_at_a_time = threading.RLock()

    def kept(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **named: Any) -> Any:
            with one_at_a_time:
                result = change(*args, **named)
                beside = path.with_suffix(".new")
                beside.write_bytes(pickle.dumps(backend.databases))
                beside.replace(path)
                return result

        return changed

    for name in CHANGES:
        setattr(backend, name, kept(getattr(backend, name)))


if __name__ == "__main__":
    main()
