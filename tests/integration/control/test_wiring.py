"""What a process makes once is of the settings that it has now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replicator.engine.reporting import Level
from webapp.monitoring.models import LogLine, Stage
from webapp.worker import wiring


def test_the_staging_location_is_the_one_that_is_set(settings: Any, tmp_path: Path) -> None:
    for name in ("one", "other", "one"):
        settings.TIDEMARK_STAGING_URL = (tmp_path / name).as_uri()
        assert wiring.storage().local("file") == str(tmp_path / name / "file")
        assert wiring.storage() is wiring.storage()


@pytest.mark.django_db
def test_a_stores_secret_is_in_no_log_line(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-of-the-store")
    replicator = make()
    wiring.reporter(replicator, Stage.CAPTURE).log(Level.INFO, "The store said s3cr3t-of-the-store of it.")
    lines = LogLine.objects.filter(replicator=replicator).values_list("message", flat=True)
    assert [line for line in lines if line.startswith("The store")] == ["The store said ••• of it."]
