"""A DATABASE_URL of one's own, before and after `migrate`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

from webapp.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.integration


def manage(home: Path, url: str, *command: str) -> tuple[int, str]:
    environment = {**os.environ, "DATABASE_URL": url, "TIDEMARK_HOME": str(home), "REDIS_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), *command],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_commands_say_that_migrate_is_needed_and_a_page_does(metadata: EmbeddedPostgres, tmp_path: Path) -> None:
    for command in ("status", "verify"):
        code, said = manage(tmp_path, metadata.url, command)
        assert (code, "Traceback" in said) == (1, False), said
        assert "Run `manage.py migrate` first" in said
    page = (
        "from django.test import Client; answer = Client().get('/login/', headers={'cookie':"
        " 'sessionid=abcdefghijklmnop'}); print(answer.status_code, answer.content)"
    )
    _, said = manage(
        tmp_path,
        metadata.url,
        "shell",
        "--no-imports",
        "-c",
        f"from django.conf import settings; settings.ALLOWED_HOSTS = ['*']; {page}",
    )
    assert "503" in said
    assert "has another schema version" in said
    assert manage(tmp_path, metadata.url, "migrate", "--verbosity", "0")[0] == 0
    assert manage(tmp_path, metadata.url, "status")[0] == 0
    port = metadata.url.rpartition(":")[2].partition("/")[0]
    code, said = manage(tmp_path, metadata.url.replace(f":{port}/", ":1/"), "status")
    assert (code, "Traceback" in said) == (1, False), said
    assert "does not respond" in said
