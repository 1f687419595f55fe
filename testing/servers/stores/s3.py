"""Embedded S3: S3Proxy over a folder, for tests.

It speaks S3's protocol, signatures and multipart uploads included.
"""

from __future__ import annotations

import secrets
import signal
from pathlib import Path

from webapp.embedded.java_artifacts import S3, fetched, java
from webapp.embedded.ports import LOOPBACK, free_port, wait_for_port
from webapp.embedded.processes import Child, ServerFailed, claim, start


class EmbeddedS3:
    """One server on loopback, with one user and one bucket.

    What it holds stays in its folder, also when it is killed.
    """

    bucket = "tidemark"

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """`folder` holds buckets, settings and log."""
        self.folder = folder.resolve()
        self.port = port or free_port()
        self.user, self.secret = "tidemark", secrets.token_hex(16)
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """A place in the bucket."""
        return f"s3://{self.bucket}"

    @property
    def environment(self) -> dict[str, str]:
        """A client's settings, as environment variables."""
        return {
            "AWS_ACCESS_KEY_ID": self.user,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """ServerFailed with the log's end where it does not come up."""
        program, command = fetched(S3), java()
        if command is None:
            message = "Embedded S3 requires Java."
            raise ServerFailed(message)
        (self.folder / "buckets" / self.bucket).mkdir(parents=True, exist_ok=True)
        settings = self.folder / "s3.properties"
        settings.touch(mode=0o600)
        settings.write_text("\n".join(f"{name}={value}" for name, value in self._settings().items()))
        claim(self.port)
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-DLOG_LEVEL=warn"]
        self._child = start(
            "s3", [command, *options, "-jar", str(program), "--properties", str(settings)], self.folder / "s3.log"
        )
        if not wait_for_port(self.port, 60.0) or not self._child.alive:
            message = f"Embedded S3 did not start:\n{self._child.tail()}"
            raise ServerFailed(message)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL to play a crash."""
        if self._child is not None:
            self._child.stop(how)
            self._child = None

    def _settings(self) -> dict[str, str]:
        return {
            "s3proxy.endpoint": f"http://{LOOPBACK}:{self.port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.user,
            "s3proxy.credential": self.secret,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
            "jclouds.filesystem.basedir": str(self.folder / "buckets"),
        }
