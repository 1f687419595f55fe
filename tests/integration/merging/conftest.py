from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.delta.lake import DeltaLake
from tests.integration.direct.play import VALUES
from tests.integration.spanner.copies import SpannerCopies
from tests.integration.warehouse.copies import PostgresCopies, RedshiftCopies

NAMES = itertools.count(1)


MUTATIONS = {"spanner": 0, "spanner_in_pieces": 100}  # of a commit; 0: as many as it takes


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("redshift", "spanner")]


@pytest.fixture(params=["delta", "enforced", "indexed", "spanner_in_pieces", *LONG])
def copies(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DeltaLake | PostgresCopies]:
    """Delta Lake; Postgres with primary keys, and with indexes only; a stand-in for Redshift; Spanner's emulator."""
    if request.param == "delta":
        yield DeltaLake.at(tmp_path)
        return
    if request.param in MUTATIONS:
        server, name = request.getfixturevalue("spanner_server"), f"merged_{next(NAMES)}"
        in_spanner = SpannerCopies(server, tmp_path, name, MUTATIONS[request.param])
        yield in_spanner
        in_spanner.close()
        return
    text = VALUES["string"]
    monkeypatch.setitem(VALUES, "string", lambda random: text(random).replace("\0", "\\\t"))
    name = f"merged_{next(NAMES)}"
    if request.param == "redshift":
        bucket = f"{request.getfixturevalue('s3_server').url}/{name}"
        made: PostgresCopies = RedshiftCopies(request.getfixturevalue("redshift"), tmp_path, bucket, name)
    else:
        made = PostgresCopies(request.getfixturevalue("postgres_source"), tmp_path, request.param, name)
    yield made
    made.close()
