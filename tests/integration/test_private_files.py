"""What Tidemark keeps on a machine is closed to other users: its folders, the files in them, and its Redis."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest
import redis

from tests.environment import HOME
from webapp.embedded import java_artifacts, postgres, postgres_source
from webapp.embedded import redis as embedded_redis
from webapp.embedded.redis import EmbeddedRedis

ROOT = Path(__file__).resolve().parents[2]
WALKED = (
    0o711 if os.geteuid() == 0 else 0o700
)  # the embedded Postgres of root runs as another user, and walks to its own folder
DJANGO = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.settings"}
SCRIPT = """
import json, sys
from pathlib import Path
import django
django.setup()
import pyarrow as pa
from webapp.replicators.staging import storage
schema = pa.schema([("a", pa.int32())])
with storage().writer("deep/er/file.parquet", schema) as file:
    file.write_table(pa.table({"a": [1]}, schema=schema))
home = Path(sys.argv[1])
(home / "warehouse" / "t").mkdir(parents=True)
(home / "warehouse" / "t" / "data.parquet").write_text("x")
(home / "log" / "web.log").write_text("x")
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_to_others(home: Path) -> list[str]:
    """What another user can read, or whose names he can list."""
    found = []
    for folder, folders, files in os.walk(home):
        for name in (".", *folders, *files):
            path = Path(folder, name)
            walked = all(mode(home / part) & 0o001 for part in path.relative_to(home).parents)
            if walked and mode(path) & 0o066:
                found.append(str(path))
    return found


@pytest.mark.parametrize("before", ["new", "made by an earlier version"])
def test_home_staging_and_warehouse_are_for_their_owner_only(tmp_path: Path, before: str) -> None:
    home = tmp_path / "home"
    if before != "new":
        for name in ("staging", "warehouse", "log"):
            (home / name).mkdir(parents=True)
            (home / name / "file").write_text("x")
            (home / name / "file").chmod(0o644)
            (home / name).chmod(0o755)
        (home / "old.log").write_text("x")
        (home / "old.log").chmod(0o644)
    (home / "log").mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    environment = {**DJANGO, "TIDEMARK_HOME": str(home)}
    environment |= {f"TIDEMARK_{name.upper()}_URL": (home / name).as_uri() for name in ("staging", "warehouse")}
    subprocess.run([sys.executable, "-c", SCRIPT, str(home)], check=True, cwd=ROOT, env=environment, umask=0o022)
    assert mode(home) == WALKED
    assert {mode(home / name) for name in ("staging", "warehouse", "log")} == {0o700}
    assert {mode(file) for file in home.rglob("*.parquet")} == {0o600}
    assert mode(home / "secret.key") == 0o600
    assert open_to_others(home) == []


def test_locations_elsewhere_are_for_their_owner_only(tmp_path: Path) -> None:
    environment = {**DJANGO, "TIDEMARK_HOME": str(tmp_path / "home")}
    environment |= {
        f"TIDEMARK_{name}_URL": (tmp_path / "else where" / name).as_uri() for name in ("STAGING", "WAREHOUSE")
    }
    subprocess.run(
        [sys.executable, "-c", "import django; django.setup()"], check=True, cwd=ROOT, env=environment, umask=0o022
    )
    assert {mode(tmp_path / "else where" / name) for name in ("STAGING", "WAREHOUSE")} == {0o700}


def test_programs_of_ours_leave_the_tests_servers_their_folders() -> None:
    """The metadata of a server that runs beside them as another user lies in there."""
    with tempfile.TemporaryDirectory(dir=HOME) as name:
        Path(name).chmod(0o755)
        subprocess.run([sys.executable, "-c", "import django; django.setup()"], check=True, cwd=ROOT, env=DJANGO)
        assert mode(Path(name)) == 0o755


def test_redis_answers_only_who_knows_its_password(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    server.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
            process = psutil.Process(client.info("server")["process_id"])
            assert client.config_get("dir")["dir"] == str(server.folder)
        with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with redis.Redis(port=server.port, password="tidemark") as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        password = server.url.split(":")[2].split("@")[0]
        assert len(password) > 20
        assert password not in json.dumps(process.cmdline())
        assert process.uids().effective != 0
        assert not [
            file
            for file in server.folder.rglob("*")
            if file.is_file() and mode(file) & 0o066 and "redis-server" not in file.name
        ]
    finally:
        server.stop()


def test_programs_that_are_unpacked_can_still_be_run_by_the_servers_user(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemark-test-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "cache").mkdir()
        (folder / "cache").chmod(0o711)
        (folder / "cache" / "jars").symlink_to(postgres_source.cache_folder() / "jars")
        for module in (postgres_source, java_artifacts):
            monkeypatch.setattr(module, "cache_folder", lambda: folder / "cache")
        for module in (postgres, embedded_redis):
            monkeypatch.setattr(module, "open_to_others", lambda _: False)
        servers = (
            postgres.EmbeddedPostgres(folder / "p", durable=False),
            postgres_source.EmbeddedPostgresSource(folder / "s", durable=False),
            EmbeddedRedis(folder / "r"),
        )
        for server in servers:
            try:
                server.start()
            finally:
                server.stop()
