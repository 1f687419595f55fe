"""The mapping of Postgres types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replicator.errors import UnsupportedType
from replicator.model.identifiers import TableId
from replicator.sources.postgres.catalog.attributes import Attribute, PgType
from replicator.sources.postgres.types import column_of, data_type_of, numeric_size, numeric_typmod, type_table
from replicator.targets import type_table as all_types

TABLE = TableId("shop", "orders")
NUMERIC = PgType(1700, "numeric")
MOOD = PgType(16400, "mood", "public", "e")


def attribute(pg_type: PgType | str, typmod: int = -1, *, nullable: bool = True) -> Attribute:
    pg_type = PgType(0, pg_type) if isinstance(pg_type, str) else pg_type
    return Attribute("c", 7, pg_type, typmod, f"type {pg_type.name}", nullable)


def domain(base: PgType, typmod: int = -1) -> PgType:
    return PgType(16500, "mine", "public", "d", base, typmod)


def array(element: PgType) -> PgType:
    return PgType(16600, f"_{element.name}", element.schema, element=element)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (attribute("bool"), "boolean"),
        (attribute("int2"), "int"),
        (attribute("int4"), "int"),
        (attribute("int8"), "bigint"),
        (attribute("oid"), "bigint"),
        (attribute("float4"), "float"),
        (attribute("float8"), "double"),
        (attribute(NUMERIC, numeric_typmod(38, 38)), "decimal(38,38)"),
        (attribute(NUMERIC, numeric_typmod(1, 0)), "decimal(1,0)"),
        (attribute(NUMERIC, numeric_typmod(39, 0)), "string"),
        (attribute(NUMERIC, numeric_typmod(5, -2)), "string"),
        (attribute(NUMERIC, numeric_typmod(2, 5)), "string"),
        (attribute(NUMERIC), "string"),
        (attribute("bpchar", 14), "string"),
        (attribute("bytea"), "binary"),
        (attribute("date"), "date"),
        (attribute("timestamp", 3), "timestamp_ntz"),
        (attribute("timestamptz"), "timestamp"),
        (attribute("timetz"), "string"),
        (attribute(MOOD), "string"),
        (attribute(array(MOOD)), "string"),
        (attribute(array(NUMERIC), numeric_typmod(5, 2)), "string"),
        (attribute(PgType(0, "pair", "public", "c", parts=(NUMERIC, domain(PgType(0, "date"))))), "string"),
        (attribute(PgType(0, "int4multirange", kind="m")), "string"),
        (attribute(PgType(0, "hstore", "extensions")), "string"),
        (attribute(domain(NUMERIC, numeric_typmod(10, 2))), "decimal(10,2)"),
        (attribute(domain(MOOD)), "string"),
        (attribute(array(domain(PgType(0, "int4")))), "string"),
        (attribute(domain(PgType(0, "date"))), "date"),
    ],
)
def test_a_source_type_has_exactly_one_type(made: Attribute, expected: str) -> None:
    assert str(data_type_of(made, TABLE)) == expected


@pytest.mark.parametrize(
    "pg_type",
    [
        PgType(2205, "regclass"),
        PgType(1033, "aclitem"),
        PgType(0, "date", "public"),
        PgType(0, "complex", "public"),
        PgType(32, "pg_ddl_command", kind="p"),
        array(PgType(0, "complex", "public")),
        array(PgType(2205, "regclass")),
        domain(PgType(2205, "regclass")),
        PgType(0, "citext", "public", "p"),
        PgType(0, "pair", "public", "c", parts=(PgType(23, "int4"), array(PgType(2205, "regclass")))),
        PgType(0, "many", "public", "m", parts=(PgType(0, "of", "public", "r", parts=(PgType(1033, "aclitem"),)),)),
    ],
)
def test_a_type_whose_text_is_not_its_value_or_that_is_unknown_is_refused_by_name(pg_type: PgType) -> None:
    with pytest.raises(UnsupportedType, match=rf"c of shop\.orders has the type type {pg_type.name}"):
        data_type_of(attribute(pg_type), TABLE)


def test_a_numeric_that_becomes_text_comes_with_a_warning() -> None:
    def warning(typmod: int) -> str:
        return column_of(attribute(NUMERIC, typmod), TABLE).warning

    assert warning(-1) == "type numeric has no fixed precision: it becomes text."
    assert warning(numeric_typmod(65, 30)) == "type numeric has more than 38 digits: it becomes text."
    assert (
        warning(numeric_typmod(5, -2)) == "type numeric has the scale -2, which no decimal(5,…) has: it becomes text."
    )
    assert not warning(numeric_typmod(38, 10))
    assert not column_of(attribute("text"), TABLE).warning


def test_a_modifier_of_numeric_is_read_with_its_sign() -> None:
    for size in ((1, 0), (38, 10), (1000, 1000), (1000, -1000), (5, -2)):
        assert numeric_size(numeric_typmod(*size)) == size
    assert numeric_size(655366) == (10, 2)  # what a server says for numeric(10,2)


def test_a_not_null_date_is_nullable_where_infinite_dates_become_null_but_not_in_a_key() -> None:
    for made in (attribute("date", nullable=False), attribute(domain(PgType(0, "timestamptz")), nullable=False)):
        assert column_of(made, TABLE).nullable
        assert not column_of(made, TABLE, key=True).nullable
        assert not column_of(made, TABLE, zero_dates="fail").nullable
        assert str(column_of(made, TABLE, zero_dates="text").type) == "string"
    assert not column_of(attribute("int4", nullable=False), TABLE).nullable
    assert not column_of(attribute("int4"), TABLE, key=True).nullable


def test_a_column_keeps_its_number_and_the_servers_name_of_its_type() -> None:
    column = column_of(replace(attribute("varchar", 24), type_text="character varying(20)"), TABLE)
    assert (column.name, column.number, column.source_type) == ("c", 7, "character varying(20)")


def test_the_document_has_a_row_for_every_type_of_both_sources() -> None:
    document = all_types.document()
    assert all(f"| {row.source} | `{row.target}` |" in document for row in type_table())
    assert (Path(__file__).parents[3] / "docs" / "types.md").read_text() == document
