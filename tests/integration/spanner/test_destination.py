"""A Spanner destination: databases of another kind, and what is dropped with a schema."""

from __future__ import annotations

from contextlib import closing

import pytest

from replicator.sources.base import CheckStatus
from replicator.targets.spanner.config import destination
from replicator.targets.spanner.dialect import SpannerDialect
from replicator.targets.spanner.kind import SPANNER
from tests.integration.warehouse.clouds import SpannerCopies
from tests.staged import schema_of

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "x": "binary"}, ["id"])


def test_a_database_of_the_other_dialect_is_told(copies: SpannerCopies) -> None:
    from google.cloud.spanner_admin_database_v1 import DatabaseDialect

    assert SPANNER.check is not None
    copies.spanner.make("pg", DatabaseDialect.POSTGRESQL)
    (*_, last) = SPANNER.check(copies.settings | {"database": "pg"})
    assert (last.status, "GoogleSQL" in last.detail) == (CheckStatus.FAILED, True), last
    assert SPANNER.written is not None
    copies.spanner.make("empty")
    assert SPANNER.written(copies.settings | {"database": "empty"}).status is CheckStatus.FAILED


def test_a_schema_is_dropped_with_all_that_is_in_it(copies: SpannerCopies) -> None:
    copies.table(KEYED)
    dialect = SpannerDialect(destination(copies.settings))
    with closing(dialect.connect()) as session:
        dialect.drop_schema(session, copies.namespace)
        dialect.drop_schema(session, copies.namespace)
    assert copies.tables() == set()
    assert (copies.namespace,) not in copies.query("SELECT schema_name FROM information_schema.schemata")
