"""The servers of a benchmark, and Tidemark's command line beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

from benchmarks.data.sources import Source
from webapp import environment
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import start

ROOT = Path(__file__).resolve().parents[2]
S = TypeVar("S", bound=Source)


class World(Generic[S]):
    """A server to copy from, a Postgres for metadata, and a data folder, all below `folder`."""

    def __init__(self, folder: Path, source: Callable[[Path], S]) -> None:
        folder.chmod(0o755)
        self.folder = folder
        self.source = source(folder)
        self._postgres = EmbeddedPostgres(folder / "postgres")
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._postgres.start()
        self.source.start()
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        own = {
            "TIDEMARK_HOME": str(home),
            "DATABASE_URL": self._postgres.url,
            "DJANGO_SETTINGS_MODULE": "webapp.settings",
        }
        self.environment = {**os.environ, **own}
        os.environ.update(own)
        self.manage("migrate", "--verbosity", "0")
        import django

        django.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.source.stop()
        self._postgres.stop()

    @property
    def metadata_process(self) -> int:
        """The process id of the metadata's Postgres."""
        return int((self.folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def catalog_url(self) -> str:
        """Of the lakehouse's catalog."""
        return environment.catalog_beside(self._postgres.url)

    @contextmanager
    def start(self, *command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """`manage.py …` in the background, its output in `log`; it does not outlive the block."""
        line = [sys.executable, str(ROOT / "manage.py"), *command]
        child = start(f"manage {command[0]}", line, log, environment=self.environment, cwd=ROOT)
        try:
            yield child.process
        finally:
            child.stop()

    def manage(self, *command: str) -> None:
        """`manage.py …`; CalledProcessError where it fails."""
        line = [sys.executable, str(ROOT / "manage.py"), *command]
        subprocess.run(line, env=self.environment, cwd=ROOT, check=True)
