"""Patterns on live servers: tables that match are taken, also those that come later or get a name that matches."""

from __future__ import annotations

from typing import Any

import pytest

from replicator.model.row_filter import parse_filter
from tests.integration.pipeline.lab import Lab
from tests.integration.pipeline.postgres_lab import PostgresLab
from webapp.replicators import services
from webapp.replicators.selection.entries import SelectionEntry, named_entry

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.django_db(transaction=True)]
TABLE = "(id INT PRIMARY KEY, v VARCHAR(20))"


def pattern(lab: Lab, text: str, **more: Any) -> SelectionEntry:
    return SelectionEntry(lab.database, text, pattern=True, **more)


def make(lab: Lab, *names: str) -> None:
    for name in names:
        lab.execute(f"CREATE TABLE {name} {TABLE}", f"INSERT INTO {name} VALUES (1, '{name}'), (2, NULL)")


def test_a_pattern_takes_what_matches_now_and_later(any_lab: Lab) -> None:
    lab = any_lab
    make(lab, "order_a", "order_tmp", "fixed_a", "other")
    entries = [
        pattern(lab, "order_*"),
        pattern(lab, "*_tmp*", excluded=True),
        pattern(lab, "fixed_?", new_tables=False),
    ]
    services.create_replicator(name=lab.name, connection=lab.connection(), selection=entries, start=True)
    lab.run_and_compare(2)
    assert set(lab.states()) == {"order_a", "fixed_a"}
    make(lab, "order_b", "order_tmp_2", "fixed_b", "another")
    lab.execute("INSERT INTO order_b VALUES (3, 'later')", "UPDATE fixed_a SET v = 'x' WHERE id = 1")
    assert lab.run_and_compare(3) == 7
    assert set(lab.states()) == {"order_a", "order_b", "fixed_a"}
    lab.execute("ALTER TABLE other RENAME TO order_c", "INSERT INTO order_c VALUES (9, 'renamed')")
    assert lab.run_and_compare(4) == 10
    lab.execute("INSERT INTO order_c VALUES (10, 'more')", "DROP TABLE order_a")
    assert lab.run_and_compare(3) == 9
    assert lab.states()["order_a"] == "dropped"


def test_a_pattern_beside_a_line_of_its_own_and_added_while_it_runs(any_lab: Lab) -> None:
    lab = any_lab
    make(lab, "order_a", "order_b", "more_a")
    if isinstance(lab, PostgresLab):
        lab.execute("ALTER TABLE order_a REPLICA IDENTITY FULL")
    own = SelectionEntry(lab.database, "order_a", row_filter=parse_filter("id > 1"))
    services.create_replicator(
        name=lab.name, connection=lab.connection(), selection=[pattern(lab, "order_*"), own], start=True
    )
    assert lab.run_and_compare(2) == 3
    services.add_tables(replicator=lab.replicator, selection=[pattern(lab, "more*")])
    make(lab, "more_b")
    assert lab.run_and_compare(4) == 7
    services.add_tables(replicator=lab.replicator, selection=[pattern(lab, "*_b", excluded=True)])
    lab.execute("INSERT INTO order_b VALUES (5, 'not seen')", "INSERT INTO more_a VALUES (5, 'seen')")
    assert lab.run_and_compare(2) == 4
    services.remove_pattern(replicator=lab.replicator, database=lab.database, pattern="*_b")
    assert lab.run_and_compare(4) == 9


def test_a_database_whose_name_has_a_dot_is_written_in_quotes(lab: Lab) -> None:
    database = f'{lab.name}.say "%s" ü'
    try:
        lab.execute(f"CREATE DATABASE `{database}`")
        for name in ("a.b", "c`c"):
            table = f"`{database}`.`{name.replace('`', '``')}`"
            lab.execute(f"CREATE TABLE {table} {TABLE}", f"INSERT INTO {table} VALUES (1, 'one')")
        quoted = f"`{database}`"
        taken = [named_entry(f"{quoted}.a*"), named_entry(f"{quoted}.`c``c`")]
        services.create_replicator(name=lab.name, connection=lab.connection(), selection=taken, start=True)
        lab.run_and_compare(2)
        lab.execute(f"INSERT INTO {quoted}.`a.b` VALUES (2, 'two')", f"ALTER TABLE {quoted}.`c``c` ADD d INT DEFAULT 3")
        assert lab.run_and_compare(2) == 3
    finally:
        lab.execute(f"DROP DATABASE IF EXISTS `{database}`")
