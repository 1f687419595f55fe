"""The stand-in for BigQuery refuses what BigQuery refuses: else the tests on it would prove nothing."""

from __future__ import annotations

import pytest

from testing.servers.bigquery.jobs import Jobs
from testing.servers.bigquery.refusals import Refusal
from testing.servers.bigquery.scripts import Outcome, Run
from testing.servers.bigquery.tables import Tables

T, S = "`p1`.`d`.`t`", "`p1`.`d`.`s`"


@pytest.fixture
def tables() -> Tables:
    made = Tables("p1", "EU")
    made.make_dataset("d", "EU")
    run(made, f"CREATE TABLE {T} (`id` INT64, `v` STRING, `f` FLOAT64) CLUSTER BY `id`")
    run(made, f"INSERT INTO {T} (`id`, `v`) SELECT 1, 'a'")
    return made


def run(tables: Tables, sql: str) -> Outcome:
    return Run(tables, "job").run(sql)


def ids(tables: Tables) -> list[int]:
    rows = run(tables, f"SELECT id FROM {T} ORDER BY id").rows
    assert rows is not None
    return list(rows.column("id").to_pylist())


def test_of_two_transactions_that_change_one_table_one_is_aborted(tables: Tables) -> None:
    change = f"UPDATE {T} SET v = 'b' WHERE id = 1"
    first, late = Run(tables, "first"), Run(tables, "late")
    for one in (first, late):
        one._one("BEGIN TRANSACTION")
    first._one(change)
    with pytest.raises(Refusal, match="concurrent update"):
        run(tables, f"BEGIN TRANSACTION; {change}; COMMIT TRANSACTION;")
    first._one("COMMIT TRANSACTION")
    with pytest.raises(Refusal, match="concurrent update"):
        late._one(change)
    assert run(tables, f"BEGIN TRANSACTION; {change}; COMMIT TRANSACTION;").kind == "SCRIPT"


def test_a_transaction_sees_one_state_and_appends_are_in_nobodys_way(tables: Tables) -> None:
    reader = Run(tables, "reader")
    reader._one("BEGIN TRANSACTION")
    run(tables, f"INSERT INTO {T} (id) SELECT 2")
    found = reader._one(f"SELECT COUNT(*) FROM {T}").rows
    assert found is not None
    assert found.column(0).to_pylist() == [1]
    assert reader._one(f"INSERT INTO {T} (id) SELECT 3").changed == 1
    reader._one("COMMIT TRANSACTION")
    assert ids(tables) == [1, 2, 3]


@pytest.mark.parametrize(
    "end",
    [
        "SELECT 1",
        "RAISE",
        "ROLLBACK TRANSACTION",
        f"CREATE TABLE {S} (`id` INT64)",
        f"ALTER TABLE {T} ADD COLUMN `w` INT64",
        f"SELECT * FROM {S}",
    ],
)
def test_a_transaction_that_does_not_reach_its_commit_has_done_nothing(tables: Tables, end: str) -> None:
    end = "IF TRUE THEN RAISE USING MESSAGE = CONCAT('no', 'thing'); END IF" if end == "RAISE" else end
    script = f"DECLARE n0 INT64;\nBEGIN TRANSACTION;\nDELETE FROM {T} WHERE TRUE;\nSET n0 = @@row_count;\n{end};"
    if end.startswith(("SELECT 1", "ROLLBACK")):
        run(tables, script)
    else:
        with pytest.raises(Refusal):
            run(tables, f"{script}\nCOMMIT TRANSACTION;")
    assert ids(tables) == [1]
    assert len(tables.tables) == 1


def test_counts_are_those_of_the_statements(tables: Tables) -> None:
    found = run(
        tables,
        f"DECLARE n0, n1, n2 INT64;\nBEGIN TRANSACTION;\nUPDATE {T} SET v = 'c;' WHERE id < 9;\nSET n0 = @@row_count;\n"
        f"SET n1 = (SELECT COUNT(*) FROM {T} WHERE v = 'c;');\nDELETE FROM {T} WHERE id = 7;\nSET n2 = @@row_count;\n"
        "IF IFNULL(n2, 0) <> 0 THEN RAISE USING MESSAGE = 'x'; END IF;\nCOMMIT TRANSACTION;\nSELECT n0, n1, n2;",
    ).rows
    assert found is not None
    assert [column.to_pylist() for column in found.columns] == [[1], [1], [0]]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (f"DELETE FROM {T}", "WHERE"),
        (f"UPDATE {T} SET v = 'x'", "WHERE"),
        ("SELECT * FROM t", "qualified"),
        ("SELECT * FROM `other`.`d`.`t`", "Access Denied"),
        (f"SELECT * FROM {S}", "Not found"),
        ("SELEKT 1 1", "Syntax error"),
        (f"SELECT ROW_NUMBER() OVER (PARTITION BY f) FROM {T}", "FLOAT64"),
        (f"CREATE TABLE {S} (`a` INT64, `A` STRING)", "Duplicate"),
        (f"CREATE TABLE {S} (`_PARTITIONTIME` INT64)", "Invalid field name"),
        (f"CREATE TABLE {S} (`a.b` INT64)", "Invalid field name"),
        (f"CREATE TABLE {S} (`a` NUMERIC(38,0))", "out of range"),
        (f"CREATE TABLE {S} (`a` FLOAT64) CLUSTER BY `a`", "clustered"),
        (f"CREATE TABLE {T} (`a` INT64)", "Already Exists"),
        (f"CREATE OR REPLACE TABLE {T} (`id` INT64)", "clustering spec"),
        (f"ALTER TABLE {T} DROP COLUMN `id`", "clustering column"),
        (f"ALTER TABLE {T} RENAME COLUMN `v` TO `F`", "already exists"),
        (f"ALTER TABLE {T} ALTER COLUMN `v` SET DATA TYPE INT64", "not assignable"),
        (f"ALTER TABLE {T} RENAME TO `d`.`u`", "qualified"),
        (f"TRUNCATE TABLE {T}", "not supported"),
    ],
)
def test_what_bigquery_refuses_is_refused(tables: Tables, sql: str, told: str) -> None:
    with pytest.raises(Refusal, match=told):
        run(tables, sql)
    assert ids(tables) == [1]


def test_a_job_is_begun_once_under_its_name(tables: Tables) -> None:
    jobs = Jobs(tables)
    job = {
        "jobReference": {"jobId": "one", "location": "EU"},
        "configuration": {"query": {"query": f"INSERT INTO {T} (id) SELECT 5", "useLegacySql": False}},
    }
    jobs.begin(job)
    with pytest.raises(Refusal, match="Already Exists"):
        jobs.begin(job)
    assert jobs.find("one").ended.wait(10)
    assert jobs.results("one", {})["jobComplete"] is True
    assert ids(tables) == [1, 5]
