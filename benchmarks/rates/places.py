"""Where the copies are: the lakehouse of the installation, or a REST catalog whose tables are on S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.data.world import World
from benchmarks.freshness import Look, in_postgres, in_sqlite
from testing.servers.iceberg_rest import EmbeddedRestCatalog
from testing.servers.stores.s3 import EmbeddedS3


@dataclass(frozen=True)
class Place:
    """settings: of the destination, None for the lakehouse of the installation; look: for a namespace; store:
    pyiceberg's properties of the store.
    """

    title: str
    settings: Mapping[str, str] | None
    look: Callable[[str], Look]
    store: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def place(world: World[Any], *, on_s3: bool = False) -> Iterator[Place]:
    """Its servers end with the block."""
    if not on_s3:
        yield Place("its own lakehouse", None, partial(in_postgres, world.catalog_url))
        return
    s3 = EmbeddedS3(world.folder / "s3-of-rest")
    s3.start()
    endpoint = s3.environment["AWS_ENDPOINT_URL"]
    store = {
        "s3.endpoint": endpoint, "s3.access-key-id": s3.user, "s3.secret-access-key": s3.secret,
        "s3.path-style-access": "true", "client.region": "us-east-1",
    }  # fmt: skip
    folder = world.folder / "rest-on-s3"
    rest = EmbeddedRestCatalog(
        folder,
        warehouse=f"{s3.url}/bench",
        properties={"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **store},
    )
    settings = {
        "catalog": "rest", "uri": rest.uri, "auth": "none", "store": "s3", "store_endpoint": endpoint,
        "credentials": "keys", "access_key_id": s3.user, "secret_access_key": s3.secret,
    }  # fmt: skip
    try:
        rest.start()
        yield Place("a REST catalog and S3", settings, partial(in_sqlite, folder / "catalog.db"), store)
    finally:
        rest.stop()
        s3.stop()
