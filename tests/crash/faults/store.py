"""An object store that has the copies of all histories, and that workers reach with trouble."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from testing.servers.stores.s3 import EmbeddedS3
from testing.servers.stores.s3_front import S3Front
from tests.crash.faults.proxy import Proxy
from webapp.embedded.ports import LOOPBACK

SECONDS = (0.2, 3.0)
MAX_BYTES = 20_000


class S3Store:
    """Workers come through a proxy that breaks connections; readers and catalogs ask the store itself."""

    def __init__(self, folder: Path) -> None:
        self._s3 = EmbeddedS3(folder)
        self._front = S3Front(self._s3.port)
        self._proxy = Proxy(LOOPBACK, self._front.port)
        self.url = self._s3.url
        self.folder = self._s3.folder / "buckets" / self._s3.bucket  # what `url` is on the disk

    def start(self) -> None:
        self._s3.start()
        self._front.start()

    def settings(self, *, troubled: bool) -> dict[str, str]:
        """Of a destination."""
        endpoint = f"http://{self._proxy.host}:{self._proxy.port}" if troubled else self.direct
        keys = {"access_key_id": self._s3.user, "secret_access_key": self._s3.secret}
        return {"store_endpoint": endpoint, "credentials": "keys", **keys}

    @property
    def credentials(self) -> dict[str, str]:
        """As environment variables."""
        return {"AWS_ACCESS_KEY_ID": self._s3.user, "AWS_SECRET_ACCESS_KEY": self._s3.secret}

    @property
    def direct(self) -> str:
        """The address of the store itself."""
        return str(self._s3.environment["AWS_ENDPOINT_URL"])

    @property
    def properties(self) -> dict[str, str]:
        """Of Iceberg's FileIO, in a catalog that writes metadata itself."""
        keys = {"s3.access-key-id": self._s3.user, "s3.secret-access-key": self._s3.secret}
        own = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": "us-east-1", **keys}
        return {**own, "s3.path-style-access": "true", "s3.endpoint": self.direct}

    def troubles(self, chance: random.Random) -> dict[str, Callable[[], object]]:
        """By what they are called."""
        return {
            "store: connections cut": lambda: self._proxy.cut(chance.randint(0, MAX_BYTES)),
            "store: hangs": lambda: self._proxy.hang(chance.uniform(*SECONDS)),
            "store: connections refused": lambda: self._proxy.refuse(chance.uniform(*SECONDS)),
        }

    def stop(self) -> None:
        self._proxy.close()
        self._front.stop()
        self._s3.stop()
