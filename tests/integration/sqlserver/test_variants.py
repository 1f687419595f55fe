"""Columns of sql_variant: log, snapshot and verification read the same text of a value; such columns are not keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replicator.errors import UnsupportedType
from replicator.model.schema import TableSchema
from replicator.sources.base import KeyRange, ReadOptions
from replicator.verification.model import TablePair
from replicator.verification.sqlserver.reader import SqlServerReader
from tests.contract.place import REPLICATOR, changes
from tests.contract.sqlserver import SqlServerPlace, TrackedPlace
from tests.integration.sqlserver.variants import VARIANTS, insert_variants

pytestmark = pytest.mark.integration
TEXTS = [text for _, text in VARIANTS]


@pytest.fixture(params=[SqlServerPlace, TrackedPlace])
def place(request: pytest.FixtureRequest) -> Iterator[SqlServerPlace]:
    opened: SqlServerPlace = request.param.opened(request)
    yield opened
    opened.close()


def test_a_value_has_one_text_in_log_snapshot_and_verification(place: SqlServerPlace) -> None:
    place.run("CREATE TABLE @.t (id int PRIMARY KEY, v sql_variant)")
    start = place.follow("t")
    insert_variants(place, "v", 1)
    place.run("INSERT INTO @.t (id) VALUES (99)")
    schema = place.schemas[place.table("t")]
    assert [(str(one.type), one.source_type) for one in schema.columns] == [("int", "int"), ("string", "sql_variant")]
    assert "without that type" in schema.columns[1].warning
    reader = place.source.snapshot_reader(REPLICATOR, ReadOptions())
    chunk = reader.read_chunk(place.table("t"), KeyRange())
    assert [row["v"] for batch in chunk.batches for row in batch.to_pylist()] == [*TEXTS, None]
    reader.close()
    assert [text for *_, text in sorted(changes(place.read(start), "id", "v"))] == [*TEXTS, None]
    assert _verified(place) == [*TEXTS, None]


def _verified(place: SqlServerPlace) -> list[str | None]:
    """Texts of column `v` as verification reads them, in the order of `id`."""
    reader, pair = SqlServerReader(place.config), TablePair(place.name, "t", place.name, "t", ("id",))
    with reader.reading(pair):
        rows = [row for batch in reader.read(pair, reader.describe(pair, "")) for row in batch]
    reader.close()
    return [None if text is None else text.decode() for _, text in sorted(rows, key=lambda row: int(row[0] or b"0"))]


def test_a_primary_key_with_one_is_refused_and_a_unique_index_with_one_is_no_key(place: SqlServerPlace) -> None:
    """learn.microsoft.com/sql/t-sql/data-types/sql-variant-transact-sql: keys may have such columns."""
    place.run(
        "CREATE TABLE @.t (id sql_variant NOT NULL PRIMARY KEY, n int)",
        "CREATE TABLE @.u (id int PRIMARY KEY, v sql_variant NOT NULL UNIQUE)",
        "CREATE TABLE @.w (v sql_variant NOT NULL UNIQUE, a int NOT NULL, b int NOT NULL, UNIQUE (a, b))",
    )
    place.follow("t", "u", "w")
    found = place.source.catalog().describe([place.table(name) for name in "tuw"])
    refused = found[place.table("t")]
    assert isinstance(refused, UnsupportedType)
    assert "Column id in the key of" in str(refused)
    assert "sql_variant" in str(refused)
    keys = {table.name: one.key for table, one in found.items() if isinstance(one, TableSchema)}
    assert keys == {"u": ("id",)} | ({} if isinstance(place, TrackedPlace) else {"w": ("a", "b")})
