"""An embedded stand-in for BigQuery, for tests: starts the server, and gives the settings that reach it."""

from __future__ import annotations

import json
import signal
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start

ROOT = Path(__file__).parents[3]
START_SECONDS = 60.0
PROJECT = "tidemark-test"
ACCOUNT = "tidemark@tidemark-test.iam.gserviceaccount.com"


class EmbeddedBigQuery:
    """One server on loopback, with an empty project.  What it holds is in memory."""

    project = PROJECT
    location = "EU"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds the log and the account's public key."""
        self.folder, self.port = folder.resolve(), port or free_port()
        self._child: Child | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @cached_property
    def _pair(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def key(self) -> str:
        """The account's key, as Google gives it."""
        pem = self._pair.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return json.dumps({
            "type": "service_account", "project_id": PROJECT, "private_key_id": "1", "private_key": pem.decode(),
            "client_email": ACCOUNT, "token_uri": f"{self.endpoint}/token",
        })  # fmt: skip

    @property
    def settings(self) -> dict[str, str]:
        """A destination's."""
        return {
            "project": PROJECT, "location": self.location, "login": "key", "service_account_key": self.key,
            "endpoint": self.endpoint, "commit_seconds": "0",
        }  # fmt: skip

    def client(self) -> Any:
        """The vendor's client, for readers of tests."""
        from google.cloud import bigquery

        login = self._login.with_scopes(["https://www.googleapis.com/auth/bigquery"])
        return bigquery.Client(PROJECT, login, location=self.location, client_options={"api_endpoint": self.endpoint})

    @cached_property
    def _login(self) -> Any:
        from google.oauth2 import service_account

        return service_account.Credentials.from_service_account_info(json.loads(self.key))

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        public = self._pair.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.folder / "account.pem").write_bytes(public)
        claim(self.port)
        command = [sys.executable, "-m", "testing.servers.bigquery.server", str(self.port), str(self.folder)]
        self._child = start("bigquery", command, self.folder / "bigquery.log", cwd=ROOT)
        if not wait_for_port(self.port, START_SECONDS) or not self._child.alive:
            message = f"Embedded BigQuery did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """What it holds is gone."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None
