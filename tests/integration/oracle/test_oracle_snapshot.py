"""Chunks of tables whose names have gone to others since they were planned."""

from __future__ import annotations

import pytest

from replicator.errors import KeyChanged
from replicator.sources.base import KeyRange, ReadOptions
from tests.contract.oracle import OraclePlace

pytestmark = pytest.mark.integration


def test_bounds_that_are_no_values_of_the_keys_type_are_waited_with(minimal: OraclePlace) -> None:
    """The table has another's name by now, and the log will say so."""
    minimal.run("CREATE TABLE @.u (id varchar(9) PRIMARY KEY)", "INSERT INTO @.u VALUES ('x')")
    minimal.follow("u")
    reader = minimal.source.snapshot_reader("contract", ReadOptions())
    with pytest.raises(KeyChanged, match="no longer has the key for which its chunks were planned"):
        reader.read_chunk(minimal.table("u"), KeyRange(None, ("7",)))
    reader.close()
    minimal.close()
