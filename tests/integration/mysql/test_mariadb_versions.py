"""The tests of MariaDB 11.4 pass on the other available versions: in a separate process, with such a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from webapp.embedded.java_artifacts import MARIADB, MARIADB_SOURCE
from webapp.embedded.mariadb import EmbeddedMariaDB

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[3]
OTHERS = sorted(set(MARIADB) - {MARIADB_SOURCE})
LOG, SNAPSHOT = "tests/integration/mysql/test_mysql_log.py", "tests/integration/mysql/test_mysql_snapshot.py"
TYPES = (
    f"{LOG}::test_every_type_has_in_the_log_the_value_that_select_gives",
    f"{LOG}::test_zero_dates_follow_the_policy",
    f"{LOG}::test_old_temporal_formats_without_fractions_are_read",
    f"{LOG}::test_floats_are_kept_to_the_bit",
    f"{SNAPSHOT}::test_values_are_those_of_the_server",
    f"{SNAPSHOT}::test_values_that_only_this_product_has",
    f"{SNAPSHOT}::test_zero_dates_follow_the_policy",
    f"{SNAPSHOT}::test_chunks_over_keys_that_only_mariadb_has",
    "tests/integration/mysql/test_mysql_catalog.py",
    "tests/integration/mysql/test_mysql_check.py",
    "tests/integration/test_verification.py::test_every_type_is_equal_to_its_copy",
)
EVERYTHING = (
    LOG, SNAPSHOT,
    "tests/integration/mysql/test_mysql_catalog.py", "tests/integration/mysql/test_mysql_check.py",
    "tests/integration/mysql/test_mysql_runs.py", "tests/integration/test_verification.py",
    "tests/integration/test_workload.py", "tests/integration/regressions_of_other_tools/test_log.py",
    "tests/property/mysql/test_ddl_server.py", "tests/property/mysql/test_library_values.py",
    "tests/integration/pipeline/mysql/test_cascades.py",
    *(f"tests/integration/pipeline/tables/test_{name}.py" for name in ("changes", "ddl", "parts", "signals")),
)  # fmt: skip


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", OTHERS)
@pytest.mark.parametrize(
    "asked", [pytest.param(TYPES, id="types"), pytest.param(EVERYTHING, id="everything", marks=pytest.mark.long)]
)
def test_another_version_passes_the_same_tests(version: str, asked: tuple[str, ...], tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={tmp_path}/tests", *asked],
        cwd=ROOT, env=own | {"TIDEMARK_TEST_MARIADB": version}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    last = ended.stdout.splitlines()[-1]
    assert re.search(r"\d\d passed", last), last
    assert "skipped" not in last, last


@pytest.mark.parametrize("version", OTHERS)
def test_a_version_is_the_one_that_was_asked_for(version: str, tmp_path: Path) -> None:
    server = EmbeddedMariaDB(tmp_path / "server", version=version)
    server.start()
    try:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT version()")
            assert cursor.fetchone()[0].startswith(f"{version}-MariaDB")
    finally:
        server.stop()
