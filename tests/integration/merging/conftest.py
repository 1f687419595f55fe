from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.delta.lake import DeltaLake
from tests.integration.direct.play import VALUES
from tests.integration.warehouse.copies import PostgresCopies

NAMES = itertools.count(1)


@pytest.fixture(params=["delta", "enforced", "indexed"])
def copies(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeltaLake | PostgresCopies]:
    """Delta Lake; Postgres with primary keys, and with indexes only."""
    if request.param == "delta":
        yield DeltaLake.at(tmp_path)
        return
    text = VALUES["string"]
    monkeypatch.setitem(VALUES, "string", lambda random: text(random).replace("\0", "\\\t"))
    server = request.getfixturevalue("postgres_source")
    made = PostgresCopies(server, tmp_path, request.param, f"merged_{next(NAMES)}")
    yield made
    made.close()
