"""What the dialect says is SQL that Redshift has: every statement, as a parser of Redshift's SQL reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
import sqlglot

from replicator.errors import ConfigurationError, TargetConflict, TargetUnauthorized, ValueDoesNotFit
from replicator.model.evolution import EvolutionPlan
from replicator.model.schema import OPERATION, SEQUENCE, Column
from replicator.model.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind, decimal
from replicator.targets.base import TargetTable
from replicator.targets.redshift.config import destination, place
from replicator.targets.redshift.connection import check_values
from replicator.targets.redshift.dialect import RedshiftDialect
from replicator.targets.redshift.failures import explained
from replicator.targets.redshift.kind import IDENTIFIERS, REDSHIFT
from replicator.targets.redshift.sql import known_type, literal, redshift_type, refused_column

ROLE = "arn:aws:iam::123456789012:role/load"
SETTINGS = {
    "host": "127.0.0.1", "database": "copy", "user": "u", "password": "p", "tls": "disable",
    "staging": "s3://bucket/some/prefix", "load": "role", "iam_role": ROLE,
}  # fmt: skip
TABLE, NEW = TargetTable("shop", "orders"), TargetTable("other", "o'clock \\ x")
COLUMNS = [("id", BIGINT), ("t", STRING), ("f", DOUBLE), ("at", TIMESTAMP), ("n", INT), ("b", DataType(Kind.BINARY))]
SHOWN = {
    "BIGINT": "bigint", "VARCHAR(65535)": "character varying(65535)", "DOUBLE PRECISION": "double precision",
    "TIMESTAMPTZ": "timestamp with time zone", "INTEGER": "integer", "VARBYTE(1024000)": "binary varying(1024000)",
}  # fmt: skip


class Recorder:
    """A session that records its statements; only the table `orders` exists, with COLUMNS."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.stages: list[str] = []

    def execute(self, sql: str) -> int:
        self.told.append(sql)
        return 0

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self.told.append(sql)
        found = [*COLUMNS, (SEQUENCE, BIGINT)] if "'orders'" in sql else []
        return [(name, SHOWN[redshift_type(kind)]) for name, kind in found]

    def read(self, sql: str, schema: pa.Schema) -> pa.Table:
        self.told.append(sql)
        return schema.empty_table()

    def load(self, place: str, rows: pa.Table, table: TargetTable) -> int:
        del place, table
        return int(rows.num_rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield


def test_every_statement_is_redshifts() -> None:
    said, dialect = Recorder(), RedshiftDialect(destination(SETTINGS))
    session: Any = said
    rows = pa.table({"id": [1], "t": ["x"], OPERATION: ["PUT"], SEQUENCE: [1]})
    names = [name for name, _ in COLUMNS]
    dialect.prepare(session, NEW)
    dialect.create(session, TABLE, COLUMNS, ["t", "id"], one=True)
    dialect.create(session, TABLE, COLUMNS, [], one=True)
    stage = dialect.stage(session, TABLE, rows)
    dialect.drop_older(session, TABLE, stage, ["id", "t"])
    dialect.carry(session, TABLE, stage, ["id", "t"], ["n"])
    dialect.delete_matching(session, TABLE, stage, ["id", "t"])
    dialect.insert(session, TABLE, stage, names, marked=True)
    dialect.delete_versions(session, TABLE, stage, ["id", "t"])
    dialect.delete_equal(session, TABLE, stage, names)
    dialect.held(session, TABLE, rows.select(["id", "t"]), rows.select(["id", "t"]).schema)
    dialect.rename(session, TABLE, NEW)
    dialect.rename(session, TABLE, TargetTable("shop", "else"))
    dialect.change_columns(session, TABLE, EvolutionPlan(renamed=(("n", "m"),), added=(column("x", INT),)), set(), [])
    dialect.change_columns(
        session, TABLE, EvolutionPlan(dropped=("f",), renamed=(("n", "m"),), widened=(column("m", BIGINT),)), {"f"},
        ["id"],
    )  # fmt: skip
    dialect.forget(session, TABLE)
    dialect.discard(session)
    assert len(said.told) > 30
    for sql in said.told:
        sqlglot.parse_one(sql, dialect="redshift")
        assert not re.search(r"DISTINCT ON|IS NOT DISTINCT|RETURNING|ON CONFLICT|ctid|::|PRIMARY KEY|FILTER", sql), sql
        assert not re.match(r"(DELETE FROM|UPDATE) \S+ (AS )?\w+ (USING|WHERE|SET)(?<! USING)(?<! WHERE)(?<! SET)", sql)
        assert "\\" not in re.sub('"[^"]*"', "", sql), sql


def column(name: str, kind: DataType) -> Column:
    return Column(name, kind, True, "")


def test_texts_that_differ_in_blanks_at_their_end_are_told_apart() -> None:
    said, dialect = Recorder(), RedshiftDialect(destination(SETTINGS))
    session: Any = said
    dialect.delete_matching(session, TABLE, "s", ["id", "t"])
    dialect.delete_equal(session, TABLE, "s", ["t"])
    assert 'OCTET_LENGTH("orders"."t") = OCTET_LENGTH(s."t")' in said.told[1]
    assert 'OCTET_LENGTH(t."t") = OCTET_LENGTH(s."t")' in said.told[-1]
    assert 'PARTITION BY "t", OCTET_LENGTH("t")' in said.told[-1]


def test_a_table_of_a_key_is_distributed_and_sorted_by_it() -> None:
    said, dialect = Recorder(), RedshiftDialect(destination(SETTINGS))
    session: Any = said
    dialect.create(session, TABLE, COLUMNS, ["t", "b", "id"], one=True)
    assert said.told[0].endswith('DISTKEY ("t") SORTKEY ("t", "id")')


def test_literals_have_no_backslash_in_quotes() -> None:
    assert literal("a'b\\c") == "'a''b' || CHR(92) || 'c'"
    assert literal(datetime(2026, 1, 2, tzinfo=UTC)) == "CAST('2026-01-02 00:00:00+00:00' AS TIMESTAMPTZ)"
    assert [literal(None), literal(3)] == ["NULL", "3"]


def test_types_are_known_as_the_catalog_says_them() -> None:
    for kind in (BIGINT, STRING, DOUBLE, TIMESTAMP, INT, DataType(Kind.BINARY)):
        assert known_type(SHOWN[redshift_type(kind)]) == kind
    assert known_type("numeric(38,10)") == decimal(38, 10)
    assert known_type("super") is known_type("character varying(20)") is None


def test_values_without_room_are_told_with_their_column() -> None:
    for rows, told in (
        (pa.table({"v": ["x", "ä" * 32768]}), "65536 bytes; Redshift takes 65535"),
        (pa.table({"v": [b"x" * 1_024_001]}), "1024001 bytes"),
        (pa.table({"v": ["a\0b"]}), "NUL"),
    ):
        with pytest.raises(ValueDoesNotFit, match=told) as found:
            check_values(rows, TABLE)
        assert found.value.column == "v"
    check_values(pa.table({"v": ["x" * 65535, None], "n": [1, 2]}), TABLE)


def test_names_are_folded_and_cut_by_their_bytes() -> None:
    names = ["Orders", "orders", "ORDERS", "ä" * 70, "x" * 127, "x" * 128, 'a"b', "pg_catalog"]
    legal = [IDENTIFIERS.legal(name) for name in names]
    assert len({one.lower() for one in legal}) == len(names)
    assert all(len(one.encode()) <= 127 and '"' not in one for one in legal)
    assert (legal[1], legal[4]) == ("orders", "x" * 127)
    assert [bool(refused_column(name)) for name in ("Id", "ä" * 64, 'a"b', "a\tb", "ctid")] == [False, *[True] * 4]


def test_positions_are_tables_of_their_own() -> None:
    dialect = RedshiftDialect(destination(SETTINGS))
    assert dialect.positions(TABLE) != dialect.positions(TargetTable("shop", "items"))
    assert dialect.positions(TABLE).namespace == "shop"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"host": ""}, "Host is missing"),
        ({"host": "db.example"}, "TLS can be off"),
        ({"host": "169.254.169.254"}, "link-local"),
        ({"user": ""}, "User is missing"),
        ({"auth": "iam_cluster"}, "Cluster identifier is missing"),
        ({"auth": "iam_serverless"}, "Workgroup is missing"),
        ({"auth": "other"}, "not known"),
        ({"staging": "https://bucket/x"}, "s3://bucket"),
        ({"staging": "s3://k:s@bucket/x"}, "s3://bucket"),
        ({"iam_role": "x'; DROP"}, "ARN"),
        ({"credentials": "keys", "access_key_id": "AKIA"}, "Secret access key is missing"),
        ({"credentials": "keys", "access_key_id": "A;B", "secret_access_key": "x"}, "characters"),
        ({"region": "eu west"}, "region"),
        ({"store_endpoint": "ftp://x"}, "Store"),
    ],
)
def test_settings_without_sense_are_told(changes: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        REDSHIFT.valid({**SETTINGS, **changes})


def test_settings_lead_to_a_place() -> None:
    found = destination({**SETTINGS, "host": "localhost", "port": "5440"})
    assert (found.port, found.bucket, found.prefix, found.role) == (5440, "bucket", "some/prefix", ROLE)
    assert place({"host": "A.example", "database": "d"}) == "a.example:5439/d"
    assert place({}) == ""
    assert "'p'" not in repr(found)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        ({"C": "XX000", "M": "1023", "D": "Serializable isolation violation on table - 7"}, TargetConflict, "1023"),
        ({"C": "XX000", "M": "S3ServiceException: Access Denied"}, TargetUnauthorized, "staging bucket"),
        ({"C": "28000", "M": "password authentication failed"}, TargetUnauthorized, "login"),
        ({"C": "22001", "M": "value too long"}, ValueDoesNotFit, "value"),
        ({"C": "42P07", "M": 'Relation "t" already exists'}, TargetConflict, "another worker"),
    ],
)
def test_each_answer_is_a_sentence(error: dict[str, str], kind: type[Exception], told: str) -> None:
    import redshift_connector

    with pytest.raises(kind, match=told) as found, explained("Redshift at h:1"):
        raise redshift_connector.ProgrammingError(error | {"D": error.get("D", "Key (id)=(secret)")})
    assert "secret" not in str(found.value)
