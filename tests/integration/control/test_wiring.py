"""What a process makes once is of the settings that it has now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webapp.replicators.staging import storage


def test_the_staging_location_is_the_one_that_is_set(settings: Any, tmp_path: Path) -> None:
    for name in ("one", "other", "one"):
        settings.TIDEMARK_STAGING_URL = (tmp_path / name).as_uri()
        assert storage().local("file") == str(tmp_path / name / "file")
        assert storage() is storage()
