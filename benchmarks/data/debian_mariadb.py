"""Debian's build of MariaDB, with OpenSSL, as most installations have it.

The embedded server's own TLS library does not use the processor's cryptographic instructions.
"""

from __future__ import annotations

import os
from pathlib import Path

from testing.servers.shared_libraries import library_path, unpacked
from testing.servers.tls import certificate
from webapp.embedded.mariadb import EmbeddedMariaDB

PACKAGES = ("mariadb-server-core", "mariadb-server", "mariadb-client-core")


class DebianMariaDB(EmbeddedMariaDB):
    """A Debian MariaDB that offers TLS with a generated certificate."""

    def start(self) -> None:
        """ServerFailed where apt does not have it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in zip(("server.crt", "server.key"), certificate(), strict=True):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o600)
        offered = {"ssl": "ON", "ssl-cert": f"{self.folder}/server.crt", "ssl-key": f"{self.folder}/server.key"}
        self._options |= offered
        super().start()

    def _programs(self) -> Path:
        return unpacked("mariadb-of-debian", PACKAGES) / "usr"

    def _server(self, base: Path) -> list[str]:
        return [str(base / "sbin" / "mariadbd"), "--no-defaults"]

    def _arguments(self, base: Path, data: Path) -> list[str]:
        return [*super()._arguments(base, data), f"--lc-messages-dir={base}/share/mysql"]

    def _install(self, base: Path, data: Path) -> list[str]:
        _, *arguments = super()._install(base, data)
        return [str(base / "bin" / "mariadb-install-db"), *arguments]

    def _environment(self, base: Path) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": library_path(base / "sbin" / "mariadbd")}
