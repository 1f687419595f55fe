"""A condition becomes one expression over columns that are taken in clear, or is refused in a sentence."""

from __future__ import annotations

import pytest

from replicator.errors import ConditionRefused
from replicator.model.identifiers import TableId
from replicator.model.masks import Mask, Masked, MaskKind
from replicator.model.schema import Column, TableSchema
from replicator.model.types import DataType
from replicator.sources.registry import KINDS
from replicator.sources.shared.conditions import MAX_CONDITION_LENGTH, condition_sql
from replicator.sources.shared.dialect import SourceDialect

COLUMNS = ("id", "v", "Name", 'odd `" col', "at")
SCHEMA = TableSchema(
    TableId("shop", "t"),
    (*(Column(name, DataType.parse("string"), nullable=True, source_type="text") for name in COLUMNS),
     Column("mail", DataType.parse("string"), nullable=True, source_type="text",
         masked=Masked(Mask(MaskKind.NULL), DataType.parse("string"), nullable=True))),
    ("id",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "text", "meant"),
    [
        ("mysql", " v = 7 or ID > 4000 ", "`v` = 7 OR `id` > 4000"),
        ("mysql", "name like 'x%' and v is not null", "`Name` LIKE 'x%' AND NOT `v` IS NULL"),
        ("mysql", 'v = "it\'s" -- all', "`v` = 'it''s'"),
        ("mysql", "at >= now() - interval 1 day", "`at` >= NOW() - INTERVAL '1' DAY"),
        ("mysql", '`odd ``" col` in (1, -2.5, null)', '`odd ``" col` IN (1, -2.5, NULL)'),
        ("mysql", "not (v between 1 and 2) /* x */", "NOT (`v` BETWEEN 1 AND 2)"),
        (
            "mysql",
            "v % 3 = 1 and date(at) = date '2026-01-01'",
            "`v` % 3 = 1 AND DATE(`at`) = CAST('2026-01-01' AS DATE)",
        ),
        ("postgres", "V = 7", '"v" = 7'),
        ("postgres", "\"Name\" ilike 'x%'", "\"Name\" ILIKE 'x%'"),
        (
            "postgres",
            "at::date >= now() - interval '1 day'",
            "CAST(\"at\" AS DATE) >= CURRENT_TIMESTAMP - INTERVAL '1 DAY'",
        ),
        (
            "postgres",
            "coalesce(v, '') is distinct from lower(\"Name\")",
            'COALESCE("v", \'\') IS DISTINCT FROM LOWER("Name")',
        ),
        ("sqlserver", "[Name] like 'x%' and V <> 7 -- all", "[Name] LIKE 'x%' AND [v] <> 7"),
        ("sqlserver", "at >= cast('2026-01-01' as datetime2)", "[at] >= CAST('2026-01-01' AS DATETIME2)"),
    ],
)
def test_what_a_condition_may_be(dialect: str, text: str, meant: str) -> None:
    sql = KINDS[dialect].dialect
    assert condition_sql(text, SCHEMA, sql) == meant
    assert condition_sql(meant, SCHEMA, sql) == meant


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("v = 1; DROP TABLE t", "not a single boolean expression"),
        ("1) OR (1 = 1", "not a single boolean expression"),
        ("v = 1 UNION SELECT 2", "not a single boolean expression"),
        ("v = 1 LIMIT 1", "not a single boolean expression"),
        ("v = (SELECT rolpassword FROM pg_authid LIMIT 1)", "not supported in a condition"),
        ("EXISTS (SELECT 1)", "not supported in a condition"),
        ("v IN (SELECT 1)", "not supported in a condition"),
        ("pg_read_file('/etc/passwd') = ''", "PG_READ_FILE"),
        ("sleep(5) = 0", "SLEEP"),
        ("load_file('/etc/passwd') IS NULL", "LOAD_FILE"),
        ("v = user()", "not supported in a condition"),
        ("v = version()", "not supported in a condition"),
        ("v = @@version", "not supported in a condition"),
        ("v REGEXP '(a+)+$'", "not supported in a condition"),
        (
            "CAST(v AS regclass) IS NULL AND query_to_xml('x', true, true, '') IS NULL",
            "not supported in a condition|not a single",
        ),
        ("CAST(v AS regclass) IS NULL", "not supported in a condition|not a single"),
        ("CAST(v AS pg_catalog.regclass) IS NULL", "not supported in a condition|not a single"),
        ("nothing = 1", "names nothing, which is not a replicated column"),
        ("u.v = 1", "which is not a replicated column"),
        ("mail LIKE 'a%'", "mail is masked"),
        ("v = 'a\\\\b'", "backslash"),
        ("x" * (MAX_CONDITION_LENGTH + 1), "longer than"),
        ("v = '\0'", "NUL"),
        ("(" * 4000 + "v" + ")" * 4000, "nested|longer"),
        ("NOT " * 2400 + "v", "nested"),
    ],
)
@pytest.mark.parametrize("dialect", ["mysql", "postgres"])
def test_what_it_may_not_be(dialect: str, text: str, why: str) -> None:
    with pytest.raises(ConditionRefused, match=why):
        condition_sql(text, SCHEMA, KINDS[dialect].dialect)


def test_a_dialect_says_how_names_are_quoted_and_compared() -> None:
    loud = SourceDialect("oracle", unquoted=str.upper)
    assert [loud.means("v", "V", quoted=False), loud.means("v", "V", quoted=True)] == [True, False]
    careless = SourceDialect("sqlite", ignores_case=True)
    assert careless.means("NAME", "Name", quoted=True)
    assert SourceDialect("mysql", quote="`").quoted("my`shop", "t") == "`my``shop`.`t`"
