"""`pip install .` gives a `tidemark` command that has all that it needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def pins(text: str) -> dict[str, str]:
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PIN.findall(text)}


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_what_the_project_names_is_pinned_alike_where_it_is_installed_from() -> None:
    extras = [one for names in project()["optional-dependencies"].values() for one in names]
    named = pins("\n".join([*project()["dependencies"], *extras]))
    installed = pins((ROOT / "requirements.txt").read_text())
    assert named.items() <= installed.items()
    assert not installed.keys() & {"pytest", "playwright", "ruff", "mypy"}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_pin_has_its_hashes(file: str) -> None:
    text = (ROOT / file).read_text()
    entries = re.split(r"\n(?=[A-Za-z0-9])", "\n" + text)[1:]
    assert entries
    assert all(PIN.match(entry) and "--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def test_the_wheel_works_from_anywhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {"webapp/templates/base.html", "webapp/static/js/app.js", "replicator/sources/mysql/README.md"} <= names
    assert not [name for name in names if name.startswith(("tests/", "testing/", "benchmarks/"))]
    (entry,) = (tmp_path / "site").glob("*.dist-info/entry_points.txt")
    assert "tidemark = webapp.__main__:main" in entry.read_text()
    (tmp_path / "work").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "TIDEMARK_HOME": str(tmp_path / "work")}
    check = (
        "import django, webapp; django.setup(); from django.template.loader import get_template; from"
        " django.contrib.staticfiles.finders import find; print(get_template('base.html').origin, find('js/app.js'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", check], cwd=tmp_path / "work",
        env=environment | {"DJANGO_SETTINGS_MODULE": "webapp.settings"},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert found.count(str(tmp_path / "site")) == 2
    said = subprocess.run([sys.executable, "-m", "webapp", "help"], cwd=tmp_path / "work", env=environment, check=True,
        capture_output=True, text=True).stdout  # fmt: skip
    assert "verify" in said
