"""Iceberg tables that pyiceberg writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SqlCatalog]:
    """A separate catalog with the namespace `verify me`."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("verify me")
    yield catalog
    catalog.close()


@pytest.fixture
def write(lake: SqlCatalog) -> Callable[[str, pa.Table], None]:
    """write(name, rows): the table in the place of one that is there, with sequence numbers where it has none."""

    def write(name: str, rows: pa.Table) -> None:
        if "_sequence_num" not in rows.column_names:
            rows = rows.append_column("_sequence_num", pa.array(range(len(rows)), pa.int64()))
        if lake.table_exists(("verify me", name)):
            lake.drop_table(("verify me", name))
        lake.create_table(("verify me", name), rows.schema).append(rows)

    return write
