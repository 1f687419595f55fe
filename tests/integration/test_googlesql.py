"""What is sent to BigQuery is GoogleSQL by Google's own parser; the stand-in's is sqlglot's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.servers.bigquery.server import STATEMENTS
from testing.servers.googlesql import NEEDED, GoogleSqlParser, available
from tests.database import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.long]
SCENES = ["tests/contract/targets", "tests/integration/warehouse", "tests/integration/verification"]


@pytest.mark.timeout(3000)
def test_every_statement_for_bigquery_is_one_for_googles_parser(tmp_path: Path) -> None:
    """Of all scenes that are played on the stand-in, those of `make test`."""
    if not available():
        pytest.skip(NEEDED)
    told = tmp_path / "statements"
    played = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", "bigquery or BigQuery", *SCENES],
        cwd=ROOT, env=os.environ | {STATEMENTS: str(told)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout[-3000:]
    statements = [json.loads(line) for line in told.read_text().splitlines()]
    for kind in ("INSERT", "UPDATE", "DELETE", "ALTER TABLE", "COMMIT TRANSACTION"):
        assert sum(kind in one for one in statements) > 20
    with GoogleSqlParser() as parser:
        assert parser.refusal("SELECT FROM x")
        refused = {one: why for one in statements if (why := parser.refusal(one))}
    assert refused == {}
