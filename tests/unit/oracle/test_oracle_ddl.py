"""Statements as the log has them: Oracle Database SQL Language Reference.

https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/CREATE-TABLE.html
https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/ALTER-TABLE.html
https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/FLASHBACK-TABLE.html
A dropped table is renamed to BIN$…: https://docs.oracle.com/cd/B28359_01/server.111/b28310/tables011.htm, "What Is the
Recycle Bin?".
"""

from __future__ import annotations

import pytest

from replicator.sources.oracle.ddl.parser import (
    AlterTable,
    CreateTable,
    DropTable,
    RenameTable,
    ReturnedTable,
    Statement,
    TruncateTable,
    parse,
)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ('CREATE TABLE "SHOP"."T" ("ID" NUMBER(9) PRIMARY KEY)', CreateTable(filled=False)),
        ("create global temporary table t (id number) on commit delete rows", CreateTable(filled=False)),
        ("create table t as select * from u", CreateTable(filled=True)),
        ("create table t (id default 5, c as (id + 1)) tablespace users", CreateTable(filled=False)),
        ("create table t (id) parallel 4 as (select 1 from dual)", CreateTable(filled=True)),
        ("create index i on t (id)", None),
        ("create or replace trigger t_table after insert on t begin null; end;", None),
        ("create view v as select * from t", None),
        ("drop table t cascade constraints purge", DropTable()),
        ('drop table "SHOP"."T" AS "BIN$abc==$0"', DropTable()),
        ("drop index i", None),
        ("truncate table shop.t drop storage;", TruncateTable()),
        ("truncate cluster c", None),
        ("flashback table t to before drop", ReturnedTable()),
        ("rename t to u", RenameTable("U")),
        ('alter table shop.t rename to "u"', RenameTable("u")),
        ('ALTER TABLE "SHOP"."T" RENAME TO "BIN$abc==$0"', None),
        ("comment on table t is 'alter table t drop column c'", None),
        ("alter table t add w number", AlterTable(added=("W",))),
        ('alter table t add ("w" number(3,2), x date default sysdate not null)', AlterTable(("w", "X"), fills=True)),
        ("alter table t add constraint p primary key (id)", AlterTable()),
        ("alter table t add (constraint c check (id > 0))", AlterTable()),
        ("alter table t add supplemental log data (all) columns", AlterTable()),
        ("alter table t add partition p3 values less than (3)", AlterTable()),
        ("alter table t drop column c", AlterTable(dropped=("C",))),
        ('alter table t drop ("a", b) cascade constraints', AlterTable(dropped=("a", "B"))),
        ("alter table t set unused (a)", AlterTable(dropped=("A",))),
        ("alter table t set unused column a", AlterTable(dropped=("A",))),
        ("alter table t drop constraint c", AlterTable()),
        ("alter table t rename column a to b", AlterTable(renamed={"A": "B"})),
        ("alter table t rename constraint a to b", AlterTable()),
        ("alter table t modify (a number(10), b not null)", AlterTable()),
        ("alter table t add a number /* drop column b */ drop column c", AlterTable(("A",), ("C",))),
        ("alter table t truncate partition p1", AlterTable(unseen=True)),
        ("alter table t exchange partition p1 with table u", AlterTable(unseen=True)),
        ("alter table t drop partition p1", AlterTable(unseen=True)),
        ("alter table t move", AlterTable()),
        ("alter session set nls_date_format = 'drop'", None),
        ("grant select on t to u", None),
        ("", None),
    ],
)
def test_a_statement_is_what_it_does_to_a_table(text: str, statement: Statement | None) -> None:
    assert parse(text) == statement
