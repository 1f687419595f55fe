"""`python -m webapp.installation.compose_secrets FOLDER`: the passwords of docker-compose.yml, made at the first start
and kept.

POSTGRES_PASSWORD and MARIADB_ROOT_PASSWORD, where they are set, count instead: for databases that were made with them.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from urllib.parse import quote


def make(folder: Path) -> None:
    """Files that only their owner may read: passwords, and what holds them."""
    os.umask(0o077)
    folder.mkdir(parents=True, exist_ok=True)
    postgres = _kept(folder / "postgres_password", os.environ.get("POSTGRES_PASSWORD", ""))
    _kept(folder / "mariadb_password", os.environ.get("MARIADB_ROOT_PASSWORD", ""))
    redis = _kept(folder / "redis_password", "")
    _write(folder / "database_url", f"postgresql://tidemark:{quote(postgres, safe='')}@postgres:5432/tidemark")
    _write(folder / "redis_url", f"redis://:{redis}@redis:6379/0")
    _write(folder / "redis.conf", f'requirepass {redis}\nsave ""\nappendonly no\n')


def _kept(path: Path, given: str) -> str:
    known = path.read_text() if path.exists() else ""
    value = given or known or secrets.token_hex(24)
    if value != known:
        _write(path, value)
    return value


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(text)
    fresh.replace(path)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
