from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.delta.lake import DeltaLake
from tests.integration.direct.play import VALUES
from tests.integration.warehouse.copies import Copies
from tests.integration.warehouse.places import opened

LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("redshift", "spanner")]


@pytest.fixture(params=["delta", "enforced", "indexed", "spanner_in_pieces", *LONG])
def copies(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeltaLake | Copies]:
    """Delta Lake; Postgres with primary keys, and with indexes only; a stand-in for Redshift; Spanner's emulator."""
    if request.param == "delta":
        yield DeltaLake.at(tmp_path)
        return
    if not request.param.startswith("spanner"):  # a text of Postgres and Redshift has no NUL
        text = VALUES["string"]
        monkeypatch.setitem(VALUES, "string", lambda random: text(random).replace("\0", "\\\t"))
    with opened(request.param, request, tmp_path) as made:
        yield made
