"""DDL on a running replicator: the target follows, and is exact at the end."""

from __future__ import annotations

import pytest
from django.core.management.base import CommandError

from tests.integration.pipeline.lab import Lab, insert

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]

ALTERS = {
    "add nullable": "ALTER TABLE t ADD COLUMN extra INT",
    "add with default": "ALTER TABLE t ADD COLUMN extra INT NOT NULL DEFAULT 5",
    "add first": "ALTER TABLE t ADD COLUMN extra VARCHAR(10) DEFAULT 'x' FIRST",
    "drop": "ALTER TABLE t DROP COLUMN v",
    "rename": "ALTER TABLE t RENAME COLUMN v TO w",
    "change": "ALTER TABLE t CHANGE COLUMN v w BIGINT",
    "widen": "ALTER TABLE t MODIFY COLUMN v BIGINT",
    "convert": "ALTER TABLE t MODIFY COLUMN v VARCHAR(20)",
    "narrow": "ALTER TABLE t MODIFY COLUMN price DECIMAL(10,1)",
    "reorder": "ALTER TABLE t MODIFY COLUMN v INT AFTER price",
    "several": "ALTER TABLE t ADD COLUMN e1 INT, DROP COLUMN v, ADD COLUMN e2 DATE, RENAME COLUMN price TO cost",
    "key": "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)",
    "drop key": "ALTER TABLE t DROP PRIMARY KEY",
    "index": "CREATE INDEX by_name ON t (name)",
    "charset": "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
}


@pytest.fixture
def running(lab: Lab) -> Lab:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT, price DECIMAL(10,2))")
    with lab.transaction() as cursor:
        insert(cursor, "t", [(n, f"n{n}", n, n / 3) for n in range(50)])
    lab.replicate()
    lab.run_and_compare(1)
    return lab


@pytest.mark.parametrize("statement", ALTERS.values(), ids=ALTERS.keys())
def test_alter_between_changes(running: Lab, statement: str) -> None:
    running.execute(
        "UPDATE t SET name = 'before' WHERE id < 10",
        statement,
        "UPDATE t SET name = 'after' WHERE id BETWEEN 5 AND 15",
        "DELETE FROM t WHERE id = 20",
    )
    running.run_and_compare(1)


def test_a_rename_keeps_values_without_reading_the_table_again(running: Lab) -> None:
    running.execute("ALTER TABLE t RENAME COLUMN v TO w")
    running.run_and_compare(1)
    assert running.table("t").runs.count() == 1


def test_truncate_and_go_on(running: Lab) -> None:
    running.execute("TRUNCATE TABLE t", "INSERT INTO t VALUES (1, 'one', 1, 1)")
    assert running.run_and_compare(1) == 1


def test_tables_come_go_and_are_renamed(running: Lab) -> None:
    running.execute(
        "CREATE TABLE fresh (k INT PRIMARY KEY, v TEXT)",
        "INSERT INTO fresh VALUES (1, 'a'), (2, 'b')",
        "RENAME TABLE t TO moved",
        "UPDATE moved SET name = 'moved' WHERE id = 3",
    )
    assert running.run_and_compare(2) == 52
    running.execute("DROP TABLE fresh")
    running.run_and_compare(1)
    assert running.states()["fresh"] == "dropped"
    running.execute("CREATE TABLE fresh (other INT PRIMARY KEY)", "INSERT INTO fresh VALUES (9)")
    running.run_and_compare(2)


def test_a_ghost_table_is_swapped_in(running: Lab) -> None:
    running.execute(
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD COLUMN extra INT NOT NULL DEFAULT 7",
        "INSERT INTO _t_gho (id, name, v, price) SELECT id, name, v, price FROM t",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "UPDATE t SET extra = 8 WHERE id = 1",
    )
    running.run_and_compare(2)


def test_a_table_from_outside_the_selection_is_swapped_in(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.replicate("t")
    lab.run_and_compare(1)
    lab.execute(
        "CREATE TABLE ghost (id INT PRIMARY KEY, v INT, w INT)",
        "INSERT INTO ghost VALUES (2, 20, 0), (3, 30, 0)",
        "RENAME TABLE t TO old, ghost TO t",
        "INSERT INTO t VALUES (4, 40, 0)",
    )
    assert lab.run_and_compare(1) == 3


def test_a_ddl_in_the_midst_of_changes_of_another_table(running: Lab) -> None:
    running.execute("CREATE TABLE other (k INT PRIMARY KEY)")
    with running.transaction() as cursor:
        insert(cursor, "other", [(n,) for n in range(10)])
    running.execute("ALTER TABLE t ADD COLUMN x INT", "DROP TABLE other")
    running.run_and_compare(1)


def test_a_policy_that_stops_stops_the_table_and_says_why(lab: Lab) -> None:
    lab.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "CREATE TABLE u (id INT PRIMARY KEY)")
    lab.replicate(options={"ddl_policy": {"drop_column": "stop"}})
    lab.run_and_compare(2)
    lab.execute("ALTER TABLE t DROP COLUMN v", "INSERT INTO u VALUES (1)")
    with pytest.raises(CommandError, match="DROP COLUMN v"):
        lab.run()
    assert lab.states() == {"t": "failed", "u": "streaming"}
    assert "DROP COLUMN v" in lab.table("t").error_message
