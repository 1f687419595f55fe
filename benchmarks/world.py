"""The servers of a benchmark, and Tidemark's command line beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.mariadb import EmbeddedMariaDB
from webapp.embedded.postgres import EmbeddedPostgres
from webapp.embedded.processes import start

ROOT = Path(__file__).resolve().parent.parent


class World:
    """A MariaDB to copy from, a Postgres for metadata, and a data folder, all below `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o755)
        self.folder = folder
        # A crash of these servers is not what is measured: the same settings serve reference and Tidemark.
        self.mariadb = EmbeddedMariaDB(folder / "mariadb", options={"innodb-buffer-pool-size": "1G"})
        self._postgres = EmbeddedPostgres(folder / "postgres")
        self.environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._postgres.start()
        self.mariadb.start()
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
        self.mariadb.stop()
        self._postgres.stop()

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

    def client(self, *arguments: str, **options: Any) -> None:
        """The `mariadb` client, connected to the source."""
        address = self.mariadb.address
        program = cache_folder() / "mariadb-11.4.5" / "bin" / "mariadb"
        connect = [f"--host={address['host']}", f"--port={address['port']}", f"--user={address['user']}"]
        subprocess.run(
            [
                str(program),
                "--no-defaults",
                *connect,
                "--local-infile=1",
                "--skip-ssl",
                "--default-character-set=utf8mb4",
                *arguments,
            ],
            env={**os.environ, "MYSQL_PWD": address["password"]},
            check=True,
            **options,
        )
