"""DDL on a running replicator: the target follows, and is exact at the end."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.management.base import CommandError
from django.utils import timezone

from replicator.errors import TableDisappeared
from replicator.model.row_filter import parse_filter
from replicator.state.tables import TableState
from tests.integration.pipeline.lab import Lab, insert
from tests.integration.regressions_of_other_tools.test_log import capture_until_killed
from webapp.replicators import services
from webapp.replicators.selection.entries import SelectionEntry, drop_unselected
from webapp.worker.run import wiring
from webapp.worker.store.table_discovery import discover

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]

ALTERS = {
    "add nullable": "ALTER TABLE {t} ADD COLUMN extra INT",
    "add with default": "ALTER TABLE {t} ADD COLUMN extra INT NOT NULL DEFAULT 5",
    "add first": "ALTER TABLE {t} ADD COLUMN extra VARCHAR(10) DEFAULT 'x' FIRST",
    "drop": "ALTER TABLE {t} DROP COLUMN v",
    "drop and add": "ALTER TABLE {t} DROP COLUMN v, ADD COLUMN v INT",
    "rename": "ALTER TABLE {t} RENAME COLUMN v TO w",
    "change": "ALTER TABLE {t} CHANGE COLUMN v w BIGINT",
    "widen": "ALTER TABLE {t} MODIFY COLUMN v BIGINT",
    "convert": "ALTER TABLE {t} MODIFY COLUMN v VARCHAR(20)",
    "narrow": "ALTER TABLE {t} MODIFY COLUMN price DECIMAL(10,1)",
    "reorder": "ALTER TABLE {t} MODIFY COLUMN v INT AFTER price",
    "several": "ALTER TABLE {t} ADD COLUMN e1 INT, DROP COLUMN v, ADD COLUMN e2 DATE, RENAME COLUMN price TO cost",
    "key": "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (id, name)",
    "drop key": "ALTER TABLE {t} DROP PRIMARY KEY",
    "index": "CREATE INDEX by_name ON {t} (name)",
    "charset": "ALTER TABLE {t} CONVERT TO CHARACTER SET latin1",
}


COLUMNS = "(id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, v INT, price DECIMAL(10,2))"
ROWS = [(n, f"n{n}", n, n / 3) for n in range(50)]


@pytest.fixture
def running(lab: Lab) -> Lab:
    lab.execute(f"CREATE TABLE t {COLUMNS}")
    with lab.transaction() as cursor:
        insert(cursor, "t", ROWS)
    lab.replicate()
    lab.run_and_compare(1)
    return lab


def test_alter_between_changes(lab: Lab, subtests: pytest.Subtests) -> None:
    """Each statement on its own table, all in one run."""
    tables = {name: f"t{number}" for number, name in enumerate(ALTERS)}
    for table in tables.values():
        lab.execute(f"CREATE TABLE {table} {COLUMNS}")
        with lab.transaction() as cursor:
            insert(cursor, table, ROWS)
    lab.replicate()
    lab.run_and_compare(len(tables))
    for name, table in tables.items():
        lab.execute(
            f"UPDATE {table} SET name = 'before' WHERE id < 10",
            ALTERS[name].format(t=table),
            f"UPDATE {table} SET name = 'after' WHERE id BETWEEN 5 AND 15",
            f"DELETE FROM {table} WHERE id = 20",
        )
    lab.run()
    reports = {report.pair.table: report for report in lab.compare()}
    for name, table in tables.items():
        with subtests.test(name):
            assert reports[table].equal, reports[table].lines()
            assert reports[table].source_rows == len(ROWS) - 1


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


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["key", "no key"])
def test_a_ghost_of_an_empty_table_is_swapped_in(lab: Lab, key: str) -> None:
    """No row tells of the new column, and the catalog knows the table by another name when its ALTER is read."""
    lab.execute(f"CREATE TABLE t (id INT {key}, v INT)")
    lab.replicate()
    lab.run_and_compare(1)
    lab.execute(
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD COLUMN extra POINT FIRST",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "DROP TABLE _t_del",
    )
    lab.run_and_compare(1)


def test_a_table_that_loses_its_key_while_it_is_read_again(running: Lab) -> None:
    services.set_snapshot_paused(replicator=running.replicator, paused=True)
    services.resnapshot_table(table=running.table("t"))
    running.execute(
        "UPDATE t SET v = -1 WHERE id < 10", "ALTER TABLE t DROP PRIMARY KEY", "UPDATE t SET v = -2 WHERE id < 5",
        "INSERT INTO t VALUES (1, 'twice', 0, 0), (1, 'twice', 0, 0)", "DELETE FROM t WHERE id = 20",
    )  # fmt: skip
    with pytest.raises(CommandError):  # all is journaled, and the rows are not read
        running.run(timeout=8)
    services.set_snapshot_paused(replicator=running.replicator, paused=False)
    assert running.run_and_compare(1) == 51


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


def test_a_table_that_is_renamed_and_dropped_while_it_loads_is_gone(lab: Lab) -> None:
    """Online schema change shape, and a chain of renames, all in one journal entry with the loads that they upset."""
    for name in ("a", "b", "c"):
        lab.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    lab.replicate(options={"snapshot_paused": True})
    with pytest.raises(CommandError):  # followed, and not loaded
        lab.run(timeout=3)
    lab.execute(
        "CREATE TABLE a_new LIKE a", "INSERT INTO a_new SELECT * FROM a", "RENAME TABLE a TO a_old, a_new TO a",
        "DROP TABLE a_old", "RENAME TABLE b TO d, c TO b, d TO c", "DROP TABLE b",
    )  # fmt: skip
    services.set_snapshot_paused(replicator=lab.replicator, paused=False)
    lab.run_and_compare(2)
    states = lab.states()
    assert states.pop("a") == states.pop("c") == "streaming"
    assert set(states.values()) == {"dropped"}


def test_a_swap_with_a_table_that_is_being_loaded_waits_for_nobody(lab: Lab) -> None:
    """The load begins again under the new name, so that the old one is free for the table that takes it."""
    lab.execute("CREATE TABLE p (v INT)", "INSERT INTO p VALUES (1), (1), (2)")
    lab.execute("CREATE TABLE q (id INT PRIMARY KEY)", "INSERT INTO q VALUES (7), (8)")
    lab.replicate()
    lab.run_and_compare(2)
    services.set_snapshot_paused(replicator=lab.replicator, paused=True)
    services.resnapshot_table(table=lab.table("p"))
    lab.execute("RENAME TABLE p TO t, q TO p, t TO q", "INSERT INTO p VALUES (9)", "DELETE FROM q WHERE v = 1 LIMIT 1")
    with pytest.raises(CommandError):  # the swap is journaled, and the load waits
        lab.run(timeout=3)
    services.set_snapshot_paused(replicator=lab.replicator, paused=False)
    lab.run_and_compare(2)
    assert {t.name: t.target_name for t in lab.replicator.tables.all()} == {"p": "p", "q": "q"}


def test_a_table_that_is_dropped_before_capture_begins_is_gone(lab: Lab) -> None:
    """Nothing in the log that is read means it: it is neither known there nor in the catalog."""
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    replicator = lab.replicate()
    with wiring.opened_source(replicator) as source:
        assert discover(replicator, source)
    lab.execute("DROP TABLE b")
    lab.run_and_compare(1)
    assert lab.states() == {"a": "streaming", "b": "dropped"}


def test_a_dropped_table_that_is_made_again_goes_on_with_its_schema_versions(running: Lab) -> None:
    """Capture began again between the two, and knows it by its number only."""
    running.execute("ALTER TABLE t ADD COLUMN x INT", "INSERT INTO t VALUES (100, 'x', 1, 1, 1)")
    running.run_and_compare(1)
    running.execute("DROP TABLE t")
    running.run()
    assert running.states() == {"t": "dropped"}
    running.execute("CREATE TABLE t (other DATE, id INT PRIMARY KEY)", "INSERT INTO t VALUES ('2026-11-22', 1)")
    assert running.run_and_compare(1) == 1
    versions = running.table("t").schemas.order_by("version")
    assert [len(one.parsed.columns) for one in versions] == [4, 5, 2]


def test_a_table_that_is_renamed_before_it_was_ever_made_leaves_its_name_to_others(lab: Lab) -> None:
    """Created, renamed away, and another one created under its name, all before the first merge."""
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY)")
    lab.replicate()
    lab.run_and_compare(1)
    lab.execute(
        "CREATE TABLE n (id INT PRIMARY KEY)", "INSERT INTO n VALUES (1)", "RENAME TABLE n TO m", "RENAME TABLE m TO o",
        "CREATE TABLE n (v INT)", "INSERT INTO n VALUES (2), (2)", "INSERT INTO o VALUES (3)",
    )  # fmt: skip
    lab.run_and_compare(3)
    assert {t.name: t.target_name for t in lab.replicator.tables.all()} == {"a": "a", "n": "n", "o": "o"}


def test_a_name_that_was_only_passed_through_is_not_waited_for(lab: Lab) -> None:
    """New tables have the names in the target by the time that the renames are applied."""
    lab.execute(*(f"CREATE TABLE {name} (id INT PRIMARY KEY, {name}1 INT)" for name in "abc"))
    lab.execute(*(f"INSERT INTO {name} VALUES (1, 1)" for name in "abc"))
    lab.replicate()
    lab.run_and_compare(3)
    tables = lab.replicator.tables
    tables.update(retry_at=timezone.now() + timedelta(hours=1))  # their merges wait
    lab.execute(
        "RENAME TABLE a TO t, b TO a, t TO b", "CREATE TABLE t (v INT)", "INSERT INTO t VALUES (2), (2)",
        "RENAME TABLE c TO u", "RENAME TABLE u TO d", "CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (7)",
        "INSERT INTO a VALUES (3, 3)", "INSERT INTO b VALUES (4, 4)", "INSERT INTO d VALUES (5, 5)",
    )  # fmt: skip
    with pytest.raises(CommandError):
        lab.run(timeout=10)
    assert {t.name: t.made_load == t.load for t in tables.filter(name__in="tu")} == {"t": True, "u": True}
    tables.update(retry_at=None)
    lab.run(timeout=60)
    lab.assert_equal(5)
    assert {t.name: t.target_name for t in tables.all()} == {name: name for name in "abdtu"}


def test_a_key_whose_type_the_log_does_not_tell_is_one_key_in_the_target(lab: Lab) -> None:
    """The log has UUID as BINARY(16), and when the table that takes the name is met, the catalog has none of the name
    that it had.
    """
    lab.execute(
        "CREATE TABLE a (k UUID PRIMARY KEY, v INT)",
        "INSERT INTO a SELECT UUID(), seq FROM seq_1_to_10",
    )
    lab.replicate()
    assert lab.run_and_compare(1) == 10
    lab.execute(
        "CREATE TABLE n LIKE a",
        "INSERT INTO n SELECT UUID(), seq FROM seq_1_to_20",
        "RENAME TABLE a TO o, n TO a",
        "INSERT INTO a SELECT UUID(), seq FROM seq_1_to_5",
        "UPDATE a SET v = v + 1 WHERE v > 3",
        "DROP TABLE o",
    )
    assert lab.run_and_compare(1) == 25


@pytest.mark.parametrize("tables", [(), ("a", "b", "c", "z")])
def test_a_dropped_tables_copy_goes_though_its_name_was_taken_before_the_copy_had_it(
    lab: Lab, process_environment: dict[str, str], tables: tuple[str, ...]
) -> None:
    """All in one journal entry: the copy of the dropped one is still called `a`, and who is `a` now waited for it for
    ever.
    """
    for name in "abcz":
        lab.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES ({ord(name)})")
    lab.replicate(*tables)
    assert lab.run_and_compare(4) == 4
    lab.execute("DROP TABLE z", "RENAME TABLE a TO z", "DROP TABLE z", "RENAME TABLE b TO z", "RENAME TABLE c TO a")
    lab.execute("INSERT INTO a VALUES (1)", "INSERT INTO z VALUES (2)")
    capture_until_killed(lab, "capture.journal.after=kill", process_environment)
    assert sorted(name for name in lab.states() if "~" not in name) == ["a", "z"]
    drop_unselected(lab.replicator)  # as the next plan does
    assert lab.run_and_compare(2) == 4


def test_a_copys_name_is_free_where_its_table_is_gone_after_a_restart_from_scratch(
    lab: Lab, process_environment: dict[str, str]
) -> None:
    """Who got the name in the source waited for ever for the one that was gone, whose rename had not reached the
    target.
    """
    lab.execute("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1), (2)")
    selection = [SelectionEntry(lab.database), SelectionEntry(lab.database, "a", row_filter=parse_filter("id > 0"))]
    services.create_replicator(name=lab.name, connection=lab.connection(), selection=selection, start=True)
    assert lab.run_and_compare(1) == 2
    lab.execute("RENAME TABLE a TO b")
    capture_until_killed(lab, "capture.journal.after=kill", process_environment)
    assert [*lab.states()] == ["b"]
    lab.execute("DROP TABLE b", "CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (3), (4), (5)")
    services.start_anew(replicator=lab.replicator)
    gone = {"state": TableState.FAILED.value, "error_code": TableDisappeared.code}
    lab.replicator.tables.filter(name="b").update(**gone)  # its snapshot looks before its copy is renamed
    with pytest.raises(CommandError):  # a table that was named is missed
        lab.run()
    assert lab.states() == {"a": "streaming", "b": "failed"}
    assert {one.pair.name: one.target_rows for one in lab.compare() if one.equal} == {"a": 3}
    lab.execute("CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO b VALUES (6)")
    services.retry_table(table=lab.table("b"))
    assert lab.run_and_compare(2) == 4
